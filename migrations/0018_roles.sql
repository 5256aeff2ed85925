-- 0018: roles and their rights. All roles may execute functions. The viewer and the operator may also read views.

-- Roles belong to the cluster, so another schema may have created them. If the migrating role may not create roles, another
-- role must do it.
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['pgwork_producer', 'pgwork_worker', 'pgwork_viewer', 'pgwork_operator'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', r);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'role "%" does not exist, and role "%" may not create it', r, current_user
                    USING HINT = 'run "pgwork doctor", which says how to create it';
        END;
    END LOOP;
END $$;

-- The checksums show whether the same migrations were applied; version() returns only a number. For clients of every role.
CREATE FUNCTION pgwork.checksums() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(checksum, ',' ORDER BY number) FROM pgwork.migration WHERE number > 0
$$;

COMMENT ON FUNCTION pgwork.checksums() IS 'Checksums of the applied migrations in their order, separated by commas. Clients compare them with their own.';

-- Revokes everything, then grants all rights. Call it again after a restore into another cluster, or when a role was
-- created later. It revokes first, because default privileges of the role that creates the schema may allow too much.
CREATE FUNCTION pgwork._grant() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s CONSTANT text := split_part('pgwork.', '.', 1);
    given record;
    f record;
    who text;
    all_roles CONSTANT text[] := ARRAY['pgwork_producer', 'pgwork_worker', 'pgwork_viewer', 'pgwork_operator'];
    -- operators may call every function without a leading underscore
    everybody CONSTANT text[] := ARRAY['version', 'checksums', 'token_number'];
    producers CONSTANT text[] := ARRAY['enqueue', 'enqueue_many', 'cancel', 'table_operation', 'table_applied'];
    -- functions that change nothing
    viewers CONSTANT text[] := ARRAY[
        'depth', 'queue_list', 'job_list', 'absent', 'lock_list', 'sema_list', 'sema_holders', 'cron_next', 'cron_times',
        'table_list', 'foreign_locks', 'sees_payloads', 'queue_counts', 'worker_list', 'overdue', 'leased_list', 'demand', 'job_search',
        'dead_errors', 'error_sort', 'queue_holds', 'queue_limits', 'gated_ms', 'rate_list', 'group_list', 'group_blocked', 'job_attempts'];
    workers CONSTANT text[] := ARRAY[
        'enqueue', 'enqueue_many', 'claim', 'claim_batch', 'extend', 'complete', 'fail', 'snooze', 'hold', 'release', 'absent', 'idle', 'awake', 'set_aside',
        'reap', 'promote', 'prune', 'maintain', 'heartbeat', 'queue_list', 'worker_report', 'group_hold', 'group_list', 'progress', 'job_progress',
        'lock_key', 'lock_acquire', 'lock_acquire_xact', 'lock_queue', 'lock_wait', 'lock_release', 'lock_forget', 'lock_is_free', 'lock_list', 'fence_ok',
        'sema_acquire', 'sema_wait', 'sema_leave', 'sema_extend', 'sema_release', 'sema_list', 'sema_holders',
        'rate_take', 'rate_list', 'queue_holds', 'queue_limits', 'gated_ms',
        'cron_next', 'cron_times', 'cron_tick', 'cron_claim', 'cron_extend', 'cron_finish', 'cron_release',
        'table_operation', 'table_applied', 'table_prune', 'table_list', 'table_reaped'];
BEGIN
    FOR given IN
        SELECT DISTINCT o.name AS what, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS to_whom
          FROM (SELECT 'SCHEMA ' || n.oid::regnamespace, n.nspowner, n.nspacl FROM pg_namespace n WHERE n.oid = s::regnamespace
                UNION ALL
                SELECT 'TABLE ' || c.oid::regclass, c.relowner, c.relacl FROM pg_class c WHERE c.relnamespace = s::regnamespace
                UNION ALL -- on columns, which are revoked with those of the table
                SELECT 'TABLE ' || c.oid::regclass, c.relowner, a.attacl FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = s::regnamespace
                UNION ALL
                SELECT 'ROUTINE ' || p.oid::regprocedure, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
                  FROM pg_proc p WHERE p.pronamespace = s::regnamespace) o (name, owner, acl)
         CROSS JOIN LATERAL aclexplode(o.acl) a
         WHERE a.grantee <> o.owner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', given.what, given.to_whom);
    END LOOP;
    FOR f IN SELECT p.oid::regprocedure AS call, p.proname AS name FROM pg_proc p WHERE p.pronamespace = s::regnamespace LOOP
        FOREACH who IN ARRAY all_roles LOOP
            IF to_regrole(who) IS NOT NULL AND NOT starts_with(f.name, '_')
               AND (who = 'pgwork_operator' OR f.name = ANY (everybody || CASE who WHEN 'pgwork_worker' THEN workers WHEN 'pgwork_viewer' THEN viewers
                                                                          ELSE producers END)) THEN
                EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', f.call, who);
            END IF;
        END LOOP;
    END LOOP;
    FOREACH who IN ARRAY all_roles LOOP
        CONTINUE WHEN to_regrole(who) IS NULL;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', s, who);
        IF who IN ('pgwork_viewer', 'pgwork_operator') THEN
            EXECUTE format('GRANT SELECT ON %1$I.job, %1$I.queue_stats, %1$I.queues, %1$I.groups, %1$I.heartbeats, %1$I.last_tick, %1$I.stuck_jobs, %1$I.migrations, %1$I.schedules, %1$I.ticks, %1$I.workers, %1$I.minutes, %1$I.log TO %2$I', s, who);
        END IF;
    END LOOP;
END $$;

SELECT pgwork._grant();
