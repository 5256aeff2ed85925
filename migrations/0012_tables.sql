-- 0012: data about tables of users: tables whose rows a reaper frees, and the operation ids that
-- make an optimistic write happen once. No function here touches a user's table. The library does
-- that with the rights of its own session, never with the rights of an owner.

CREATE TABLE pgwork.leased_table (
    schema_name text COLLATE "C" NOT NULL,
    table_name  text COLLATE "C" NOT NULL,
    key         text[] NOT NULL,
    locked_by   text NOT NULL,
    expires_at  text NOT NULL,
    token       text NOT NULL,
    owner       text, -- the owner at registration; by name, so that a dump can be restored elsewhere
    reaped_at   timestamptz, -- rows were freed
    error       text NOT NULL DEFAULT '',
    rests_until timestamptz, -- a pass took long: no reaper tries before this time
    PRIMARY KEY (schema_name, table_name)
);

CREATE TABLE pgwork.table_operation (
    op uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    own boolean NOT NULL DEFAULT false -- created by the library for one call, so no caller repeats it
);
CREATE INDEX table_operation_at ON pgwork.table_operation (at);

-- ---- operation ids ----

-- An id that the library created is needed until the outcome of the call is known. The next write of
-- the same handle deletes it, so that the table keeps one id per handle, not all ids of a day.
CREATE FUNCTION pgwork.table_operation(op uuid, spent uuid DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    IF op IS NULL THEN
        PERFORM pgwork._refuse('op', NULL, 'a uuid');
    END IF;
    DELETE FROM pgwork.table_operation t WHERE t.op = spent AND t.own;
    INSERT INTO pgwork.table_operation (op, own) VALUES (op, spent IS NOT NULL);
    RETURN true;
END $$;

-- The row lock is a write, so the answer true also waits for the disk, and for a synchronous standby that may not have the row yet.
CREATE FUNCTION pgwork.table_applied(op uuid) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pgwork.table_operation t WHERE t.op = table_applied.op FOR KEY SHARE)
$$;

CREATE FUNCTION pgwork.table_prune(batch integer DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pruned bigint;
    old CONSTANT timestamptz := clock_timestamp() -- a variable, because with the function itself no index is used
        - (SELECT s.value::bigint FROM pgwork.setting s WHERE s.name = 'op_retention_ms') * interval '1 ms';
BEGIN
    PERFORM pgwork._refuse_unless(batch BETWEEN 1 AND 100000, 'batch', batch::text, '1..100000');
    DELETE FROM pgwork.table_operation t
     WHERE t.ctid = ANY (ARRAY(SELECT o.ctid FROM pgwork.table_operation o
                                WHERE o.at < old
                                ORDER BY o.at LIMIT batch FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;

-- ---- registered tables ----

CREATE FUNCTION pgwork.table_register(schema_name text, table_name text, key text[], locked_by text, expires_at text, token text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    argument text;
    name text;
BEGIN
    PERFORM pgwork._refuse_unless(array_ndims(key) = 1 AND cardinality(key) <= 8, 'key', key::text, '1 to 8 columns, in one dimension');
    FOR argument, name IN
        VALUES ('schema_name', schema_name), ('table_name', table_name), ('locked_by', locked_by), ('expires_at', expires_at), ('token', token)
        UNION ALL SELECT 'key', unnest(key)
    LOOP
        PERFORM pgwork._refuse_unless(coalesce(octet_length(name), 0) BETWEEN 1 AND 63, argument, name, '1 to 63 bytes');
    END LOOP;
    INSERT INTO pgwork.leased_table AS t
    VALUES (schema_name, table_name, key, locked_by, expires_at, token,
            (SELECT pg_get_userbyid(c.relowner) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE n.nspname = schema_name AND c.relname = table_name))
        ON CONFLICT ON CONSTRAINT leased_table_pkey DO UPDATE
       SET key = excluded.key, locked_by = excluded.locked_by, expires_at = excluded.expires_at, token = excluded.token,
           owner = excluded.owner, error = '', rests_until = NULL;
END $$;

CREATE FUNCTION pgwork.table_unregister(schema_name text, table_name text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (DELETE FROM pgwork.leased_table t
                   WHERE t.schema_name = table_unregister.schema_name AND t.table_name = table_unregister.table_name RETURNING 1)
    SELECT EXISTS (SELECT FROM gone)
$$;

CREATE FUNCTION pgwork.table_list() RETURNS SETOF pgwork.leased_table
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM pgwork.leased_table t ORDER BY t.schema_name, t.table_name
$$;

-- Writes only changes. Returns whether there is an error that was not known. A table without an index, or
-- under ALTER TABLE, takes long in every pass, and queues wait meanwhile. So all reapers skip it for a while.
CREATE FUNCTION pgwork.table_reaped(schema_name text, table_name text, freed bigint, error text, rest_ms bigint DEFAULT 0) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH known AS (
        SELECT t.error FROM pgwork.leased_table t WHERE t.schema_name = table_reaped.schema_name AND t.table_name = table_reaped.table_name
    ), noted AS (
        UPDATE pgwork.leased_table t
           SET reaped_at = CASE WHEN freed > 0 THEN clock_timestamp() ELSE t.reaped_at END, error = left(table_reaped.error, 1000),
               rests_until = CASE WHEN rest_ms > 0 THEN clock_timestamp() + least(rest_ms, 3600000) * interval '1 ms' END
         WHERE t.schema_name = table_reaped.schema_name AND t.table_name = table_reaped.table_name
           AND (freed > 0 OR rest_ms > 0 OR t.error <> left(table_reaped.error, 1000))
    )
    SELECT EXISTS (SELECT FROM known k WHERE table_reaped.error <> '' AND k.error <> left(table_reaped.error, 1000))
$$;

COMMENT ON TABLE pgwork.leased_table IS 'Tables of the users'' whose expired leases the reapers free.';
COMMENT ON TABLE pgwork.table_operation IS 'Operation ids of optimistic writes, so that none is applied twice; kept as long as op_retention_ms says.';
COMMENT ON FUNCTION pgwork.table_operation(uuid, uuid) IS 'Stores an operation id in the transaction that writes; fails (23505) if it exists. With spent the id will not be repeated, and the earlier such id named by spent, if it exists, is deleted.';
COMMENT ON FUNCTION pgwork.table_applied(uuid) IS 'Whether the transaction that stored this operation id has committed.';
COMMENT ON FUNCTION pgwork.table_prune(integer) IS 'Deletes operation ids after their retention. Returns their number.';
COMMENT ON FUNCTION pgwork.table_register(text, text, text[], text, text, text) IS 'Lets the reapers free expired rows of a table. The table''s triggers and functions run with the rights of the reapers: register only tables whose owner may have these. If the owner changes, the reapers skip the table. A role that may call this can get the rights of the reapers through a table of its own.';
COMMENT ON FUNCTION pgwork.table_unregister(text, text) IS 'The reapers do not free rows of the table any more. False: it was not registered.';
COMMENT ON FUNCTION pgwork.table_list() IS 'The registered tables, and the last error of a reaper.';
COMMENT ON FUNCTION pgwork.table_reaped(text, text, bigint, text, bigint) IS 'Records the result of a reaper''s pass over a table; true: an error that was not known. Reapers skip the table for rest_ms, an hour at most.';
