-- 0017: workers and reapers show that they are alive.

CREATE TABLE pgwork.beat (
    role text NOT NULL, name text NOT NULL, pid integer NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (role, name)
);

CREATE FUNCTION pgwork.beat(role text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(role) BETWEEN 1 AND 64, 'role', role, '1 to 64 bytes'),
            pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
    -- A reaper calls this many times a second; to write it down every five seconds is enough.
    PERFORM FROM pgwork.beat b WHERE b.role = beat.role AND b.name = beat.name AND b.pid = pg_backend_pid()
                                 AND b.at BETWEEN clock_timestamp() - interval '5 s' AND clock_timestamp();
    IF FOUND THEN RETURN; END IF;
    DELETE FROM pgwork.beat b WHERE b.at < clock_timestamp() - interval '1 day';
    INSERT INTO pgwork.beat AS b (role, name, pid, at) VALUES (role, name, pg_backend_pid(), clock_timestamp())
        ON CONFLICT ON CONSTRAINT beat_pkey DO UPDATE SET pid = excluded.pid, at = excluded.at;
END $$;

CREATE VIEW pgwork.beats AS SELECT * FROM pgwork.beat;

COMMENT ON FUNCTION pgwork.beat IS 'A heartbeat of a reaper, for the doctor.';
COMMENT ON VIEW pgwork.beats IS 'Heartbeats of reapers.';
