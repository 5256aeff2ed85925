-- 0011: cron expressions and their next times. Only the server computes them, because it has the
-- time zones. Two rules handle clock changes. W is the local time in the zone, in whole seconds.
-- "wild": the minute or the hour begins with *. A tick comes whenever W matches: none in a gap, two
-- in an overlap. "fixed": all others. A tick comes when W first reaches a matching time or a later
-- one. So a time in a gap comes directly after the gap, and a time in an overlap comes once, in the
-- first pass.

-- ---- expressions ---------------------------------------------------------------------------------------------

-- Sets of numbers: bit n, counted from the left, from 0, stands for n. any_*: the field begins with *. Day 32 is the last
-- day of a month (L), 33 its last workday (LW). near n: the workday nearest to day n (nW), in the same month.
-- Weekday 7 * k + n: the k-th weekday n of a month (n#k); 42 + n: the last (nL). near NULL: none of these.
CREATE TYPE pgwork._cron AS (
    second      bit(60),
    minute      bit(60),
    hour        bit(60),
    day         bit(60),
    month       bit(60),
    weekday     bit(60),
    any_day     boolean,
    any_weekday boolean,
    wild        boolean,
    near        bit(60),
    every_s     integer -- @every: the other fields are NULL
);

CREATE FUNCTION pgwork._cron_fault(expression text, at integer, field text, expected text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c text := substr(expression, at, 1);
    word text := left(substring(substr(expression, at) FROM '^@?[A-Za-z0-9]*' COLLATE "C"), 20);
BEGIN
    RAISE EXCEPTION 'argument expression is "%": %', left(expression, 80),
        CASE WHEN c = '' THEN coalesce(field || ' field', 'cron expression') || ' ends at column ' || at || ': expected ' || expected
             ELSE coalesce(field || ' field, ', '') || 'column ' || at || ': expected ' || expected || ', got '
                  || CASE WHEN ascii(c) >= 128 THEN 'a character beyond ASCII'
                          WHEN ascii(c) < 32 OR ascii(c) = 127 THEN 'a control character'
                          WHEN word = '' THEN '"' || c || '"'
                          ELSE '"' || word || '"' END END
        USING ERRCODE = 'PW001', HINT = 'minute hour day month weekday, each * or lists of n, n-n, with /step (days also L, LW, nW; weekdays nL, n#k); @daily ...; or @every 90s';
END $$;

-- The number of a word, or -1.
CREATE FUNCTION pgwork._cron_value(kind integer, word text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    least_is CONSTANT integer := ('{0,0,0,1,1,0}'::integer[])[kind];
    most CONSTANT integer := ('{59,59,23,31,12,7}'::integer[])[kind];
    names CONSTANT text[] := CASE kind
        WHEN 5 THEN '{january,february,march,april,may,june,july,august,september,october,november,december}'::text[]
        WHEN 6 THEN '{sunday,monday,tuesday,wednesday,thursday,friday,saturday}'::text[] END;
    v integer;
BEGIN
    word := lower(word COLLATE "C");
    IF word ~ '^[0-9]{1,9}$' THEN
        v := word;
    ELSE
        SELECT least_is - 1 + n.i INTO v FROM unnest(names) WITH ORDINALITY n (name, i) WHERE word IN (n.name, left(n.name, 3));
    END IF;
    RETURN CASE WHEN v BETWEEN least_is AND most THEN v ELSE -1 END;
END $$;

-- Reads the field that begins at i; i moves to the next one. kind: 1 (second) to 6 (weekday).
CREATE FUNCTION pgwork._cron_field(expression text, kind integer, INOUT i integer, OUT bits bit(60), OUT star boolean, OUT near bit(60))
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    none CONSTANT bit(60) := repeat('0', 60)::bit(60);
    field CONSTANT text := ('{second,minute,hour,day of month,month,weekday}'::text[])[kind];
    least_is CONSTANT integer := ('{0,0,0,1,1,0}'::integer[])[kind];
    most CONSTANT integer := ('{59,59,23,31,12,7}'::integer[])[kind];
    size CONSTANT integer := ('{60,60,24,31,12,7}'::integer[])[kind]; -- a range wraps around after so many values
    allowed CONSTANT text := least_is || '..' || most || CASE kind WHEN 5 THEN ' or jan..dec' WHEN 6 THEN ' or sun..sat' ELSE '' END;
    word text;
    v integer;
    range integer[]; -- from and to
    step integer;
BEGIN
    bits := none;
    star := substr(expression, i, 1) = '*';
    LOOP
        range := '{}';
        step := 1;
        word := lower(coalesce(substring(substr(expression, i) FROM '^[A-Za-z0-9]+' COLLATE "C"), '') COLLATE "C");
        IF kind = 4 AND word ~ '^(lw?|[0-9]{1,9}w)$' AND (word IN ('l', 'lw') OR pgwork._cron_value(4, left(word, -1)) > 0) THEN
            near := coalesce(near, none);
            IF word IN ('l', 'lw') THEN
                bits := set_bit(bits, 31 + length(word), 1);
            ELSE
                near := set_bit(near, left(word, -1)::integer, 1);
            END IF;
            i := i + length(word);
        ELSIF kind = 6 AND pgwork._cron_value(6, word) >= 0 AND substr(expression, i + length(word), 1) = '#' THEN
            v := pgwork._cron_value(6, word) % 7;
            i := i + length(word) + 1;
            IF substr(expression, i) !~ '^[1-5]([^A-Za-z0-9]|$)' COLLATE "C" THEN
                PERFORM pgwork._cron_fault(expression, i, field, '1..5');
            END IF;
            near := coalesce(near, none);
            bits := set_bit(bits, 7 * substr(expression, i, 1)::integer + v, 1);
            i := i + 1;
        ELSIF kind = 6 AND word ~ '.l$' AND pgwork._cron_value(6, word) < 0 AND pgwork._cron_value(6, left(word, -1)) >= 0 THEN
            near := coalesce(near, none);
            bits := set_bit(bits, 42 + pgwork._cron_value(6, left(word, -1)) % 7, 1);
            i := i + length(word);
        ELSE
            IF substr(expression, i, 1) = '*' THEN
                range := ARRAY[least_is, CASE kind WHEN 6 THEN 6 ELSE most END];
                i := i + 1;
            ELSE
                LOOP
                    word := coalesce(substring(substr(expression, i) FROM '^[A-Za-z0-9]+' COLLATE "C"), '');
                    v := pgwork._cron_value(kind, word);
                    IF v < 0 THEN
                        PERFORM pgwork._cron_fault(expression, i, field, CASE cardinality(range) WHEN 0 THEN '* or ' ELSE '' END || allowed);
                    END IF;
                    range := range || v;
                    i := i + length(word);
                    EXIT WHEN cardinality(range) = 2 OR substr(expression, i, 1) <> '-';
                    i := i + 1;
                END LOOP;
            END IF;
            IF substr(expression, i, 1) = '/' THEN
                IF cardinality(range) = 1 THEN
                    range := range || greatest(range[1], CASE kind WHEN 6 THEN 6 ELSE most END);
                END IF;
                i := i + 1;
                word := substring(substr(expression, i) FROM '^[A-Za-z0-9]+' COLLATE "C");
                step := CASE WHEN word ~ '^[0-9]{1,9}$' THEN word::integer ELSE 0 END;
                IF step NOT BETWEEN 1 AND most THEN
                    PERFORM pgwork._cron_fault(expression, i, field, 'a step of 1..' || most);
                END IF;
                i := i + length(word);
            END IF;
        END IF;
        IF substr(expression, i, 1) NOT IN ('', ',', ' ', E'\t') THEN
            PERFORM pgwork._cron_fault(expression, i, field, ', or the field''s end');
        END IF;
        IF range[2] < range[1] THEN
            range[2] := range[2] + size;
        END IF;
        FOR v IN coalesce(range[1], 0) .. coalesce(range[2], range[1], -1) BY step LOOP
            bits := set_bit(bits, least_is + (v - least_is) % size, 1);
        END LOOP;
        EXIT WHEN substr(expression, i, 1) <> ',';
        i := i + 1;
    END LOOP;
    i := i + length(substring(substr(expression, i) FROM E'^[ \t]*'));
END $$;

CREATE FUNCTION pgwork._cron_every(expression text, at integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    i integer := at;
    part text[];
    total bigint := 0;
BEGIN
    LOOP
        part := regexp_match(substr(expression, i), '^([0-9]{1,9})([smhdwSMHDW])');
        IF part IS NULL THEN
            PERFORM pgwork._cron_fault(expression, i, NULL, 'a time such as 90s, 1h30m or 2d');
        END IF;
        total := total + part[1]::bigint * CASE lower(part[2] COLLATE "C") WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600 WHEN 'd' THEN 86400 ELSE 604800 END;
        i := i + length(part[1]) + 1;
        EXIT WHEN substr(expression, i, 1) IN ('', ' ', E'\t');
    END LOOP;
    IF total NOT BETWEEN 1 AND 31622400 THEN
        PERFORM pgwork._cron_fault(expression, at, NULL, '1s..366d');
    END IF;
    i := i + length(substring(substr(expression, i) FROM E'^[ \t]*'));
    IF i <= length(expression) THEN
        PERFORM pgwork._cron_fault(expression, i, NULL, 'the end');
    END IF;
    RETURN total;
END $$;

-- PW001 says where the expression is not valid, and what was expected. src/base/cronexpr.c has the same messages, without a server.
CREATE FUNCTION pgwork._cron_parse(expression text, OUT e pgwork._cron)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    i integer := 1 + length(substring(expression FROM E'^[ \t]*'));
    text_is text := expression;
    name text;
    n integer;
    day_at integer;
    star boolean;
    near bit(60);
    day bit(60);
BEGIN
    IF expression IS NULL THEN
        PERFORM pgwork._refuse('expression', NULL, 'a cron expression');
    ELSIF octet_length(expression) > 255 THEN
        SELECT min(k) INTO n FROM generate_series(1, 256) k WHERE octet_length(left(expression, k)) > 255; -- the first character too many
        PERFORM pgwork._cron_fault(expression, n, NULL, 'the end: 255 bytes are the limit');
    END IF;
    IF substr(expression, i, 1) = '@' THEN
        name := lower(substring(substr(expression, i + 1) FROM '^[A-Za-z0-9]*' COLLATE "C") COLLATE "C");
        text_is := CASE name WHEN 'yearly' THEN '0 0 1 1 *' WHEN 'annually' THEN '0 0 1 1 *' WHEN 'monthly' THEN '0 0 1 * *'
                             WHEN 'weekly' THEN '0 0 * * 0' WHEN 'daily' THEN '0 0 * * *' WHEN 'midnight' THEN '0 0 * * *'
                             WHEN 'hourly' THEN '0 * * * *' END;
        IF text_is IS NULL AND name <> 'every' THEN
            PERFORM pgwork._cron_fault(expression, i, NULL, '@yearly @monthly @weekly @daily @hourly or @every');
        END IF;
        i := i + 1 + length(name);
        n := i + length(substring(substr(expression, i) FROM E'^[ \t]*'));
        IF text_is IS NULL THEN
            e.every_s := pgwork._cron_every(expression, n);
            RETURN;
        ELSIF n <= length(expression) THEN
            PERFORM pgwork._cron_fault(expression, n, NULL, 'the end');
        END IF;
        i := 1;
    END IF;

    n := cardinality(regexp_split_to_array(trim(both E' \t' FROM text_is), E'[ \t]+')) - (trim(both E' \t' FROM text_is) = '')::integer;
    IF n < 5 THEN
        PERFORM pgwork._cron_fault(expression, length(expression) + 1, NULL, '5 or 6 fields, got ' || n);
    ELSIF n > 6 THEN
        PERFORM pgwork._cron_fault(expression, 1 + length(substring(expression FROM E'^[ \t]*(?:[^ \t]+[ \t]+){6}')), NULL,
                                   'the end: 5 or 6 fields, got ' || n);
    END IF;
    e.second := set_bit(repeat('0', 60)::bit(60), 0, 1);
    IF n = 6 THEN
        SELECT f.i, f.bits INTO i, e.second FROM pgwork._cron_field(text_is, 1, i) f;
    END IF;
    SELECT f.i, f.bits, f.star INTO i, e.minute, e.wild FROM pgwork._cron_field(text_is, 2, i) f;
    SELECT f.i, f.bits, f.star INTO i, e.hour, star FROM pgwork._cron_field(text_is, 3, i) f;
    e.wild := e.wild OR star;
    day_at := i;
    SELECT f.i, f.bits, f.star, f.near INTO i, e.day, e.any_day, e.near FROM pgwork._cron_field(text_is, 4, i) f;
    SELECT f.i, f.bits INTO i, e.month FROM pgwork._cron_field(text_is, 5, i) f;
    SELECT f.i, f.bits, f.star, f.near INTO i, e.weekday, e.any_weekday, near FROM pgwork._cron_field(text_is, 6, i) f;
    e.near := coalesce(e.near, near);

    -- Days 1 to 29 are in every month (29 February in leap years), 30 not in February, 31 in seven months.
    -- L and LW are in every month.
    day := e.day | coalesce(e.near, repeat('0', 60)::bit(60));
    IF (e.any_day OR e.any_weekday) AND position(B'1' IN substring(day FOR 30)) = 0 AND position(B'1' IN substring(day FROM 33)) = 0
       AND NOT (get_bit(day, 30) = 1 AND position(B'1' IN set_bit(e.month, 2, 0)) > 0)
       AND NOT (get_bit(day, 31) = 1 AND position(B'1' IN e.month & rpad('0101010110101', 60, '0')::bit(60)) > 0) THEN
        PERFORM pgwork._cron_fault(expression, day_at, 'day of month', 'a day that one of these months has');
    END IF;
END $$;

-- ---- the next time -------------------------------------------------------------------------------------------

-- The next number of the set, from n on. NULL: none.
CREATE FUNCTION pgwork._cron_bit(bits bit(60), n integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN nullif(position(B'1' IN substring(bits FROM n + 1)), 0) + n - 1;

-- Whether a day matches L, LW or nW; the next function: whether it matches nL or n#k. Called if near is not NULL.
CREATE FUNCTION pgwork._cron_day(e pgwork._cron, d date) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n CONSTANT integer := extract(day FROM d);
    w CONSTANT integer := extract(dow FROM d);
    most integer;
BEGIN
    most := extract(day FROM date_trunc('month', d::timestamp) + interval '1 month - 1 day');
    IF n = most AND get_bit(e.day, 32) = 1 THEN
        RETURN true;
    END IF;
    -- A workday stands for itself, a Friday for the next Saturday, a Monday for the previous Sunday. At the start or end of
    -- a month it stands for both days of the weekend.
    RETURN w BETWEEN 1 AND 5
       AND (get_bit(e.day, 33) = 1 AND (n = most OR w = 5 AND n >= most - 2)
            OR get_bit(e.near, n) = 1
            OR w = 5 AND n + 1 <= most AND get_bit(e.near, n + 1) = 1
            OR w = 5 AND n + 2 = most AND get_bit(e.near, most) = 1
            OR w = 1 AND n > 1 AND get_bit(e.near, n - 1) = 1
            OR w = 1 AND n = 3 AND get_bit(e.near, 1) = 1);
END $$;

CREATE FUNCTION pgwork._cron_weekday(e pgwork._cron, d date) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n CONSTANT integer := extract(day FROM d);
    w CONSTANT integer := extract(dow FROM d);
BEGIN
    RETURN get_bit(e.weekday, 7 * ((n + 6) / 7) + w) = 1
        OR get_bit(e.weekday, 42 + w) = 1 AND extract(month FROM d + 7) <> extract(month FROM d);
END $$;

-- The next matching local time, without time zones. It is within 40 years: the longest gap is 29
-- February on a given weekday across the year 2100.
CREATE FUNCTION pgwork._cron_local(e pgwork._cron, after timestamp) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t timestamp := after + interval '1 s';
    d date := t::date;
    h integer := extract(hour FROM t);
    m integer := extract(minute FROM t);
    s integer := pgwork._cron_bit(e.second, extract(second FROM t)::integer);
    special CONSTANT boolean := e.near IS NOT NULL;
    month integer;
BEGIN
    -- Finds the time of day from t on: s, m, h count like an odometer.
    IF get_bit(e.hour, h) = 0 OR get_bit(e.minute, m) = 0 OR s IS NULL THEN
        s := pgwork._cron_bit(e.second, 0);
        m := CASE WHEN get_bit(e.hour, h) = 1 THEN pgwork._cron_bit(e.minute, m + 1) END;
        IF m IS NULL THEN
            m := pgwork._cron_bit(e.minute, 0);
            h := pgwork._cron_bit(e.hour, h + 1);
            IF h IS NULL THEN
                h := pgwork._cron_bit(e.hour, 0);
                d := d + 1;
            END IF;
        END IF;
    END IF;
    -- Finds the day. A day later than that of t begins with the first time of day.
    LOOP
        month := extract(month FROM d);
        IF get_bit(e.month, month) = 0 THEN
            d := date_trunc('month', d::timestamp)::date + interval '1 month';
        ELSIF e.any_day OR e.any_weekday THEN
            EXIT WHEN (get_bit(e.day, extract(day FROM d)::integer) = 1 OR special AND pgwork._cron_day(e, d))
                  AND (get_bit(e.weekday, extract(dow FROM d)::integer) = 1 OR special AND pgwork._cron_weekday(e, d));
            d := d + 1;
        ELSE
            EXIT WHEN get_bit(e.day, extract(day FROM d)::integer) = 1 OR get_bit(e.weekday, extract(dow FROM d)::integer) = 1
                   OR special AND (pgwork._cron_day(e, d) OR pgwork._cron_weekday(e, d));
            d := d + 1;
        END IF;
        IF (d <= t + interval '41 years') IS NOT TRUE THEN
            RAISE EXCEPTION 'the cron expression matches no time' USING ERRCODE = 'PW001', HINT = 'check its days, months and weekdays';
        END IF;
    END LOOP;
    IF d > t::date THEN
        h := pgwork._cron_bit(e.hour, 0);
        m := pgwork._cron_bit(e.minute, 0);
        s := pgwork._cron_bit(e.second, 0);
    END IF;
    RETURN d + make_time(h, m, s);
END $$;

-- The first instant after a at which the zone's offset differs from that at a; it is at most b. No
-- zone has had two changes within three days, or a change of more than 24 hours.
CREATE FUNCTION pgwork._cron_shift(zone text, a timestamptz, b timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    offset_is interval := (a AT TIME ZONE zone) - (a AT TIME ZONE 'UTC');
    middle timestamptz;
BEGIN
    WHILE b - a > interval '1 s' LOOP
        middle := a + floor(extract(epoch FROM b - a) / 2) * interval '1 s';
        IF (middle AT TIME ZONE zone) - (middle AT TIME ZONE 'UTC') = offset_is THEN
            a := middle;
        ELSE
            b := middle;
        END IF;
    END LOOP;
    RETURN b;
END $$;

-- The instants at which the clock shows a local time: first and last (two in an overlap). In a gap,
-- both are the instant after the gap.
CREATE FUNCTION pgwork._cron_at(zone text, local timestamp, OUT first timestamptz, OUT last timestamptz, OUT gap boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shown timestamp;
BEGIN
    -- In an overlap the server takes the later instant, and in a gap the offset before the gap.
    last := local AT TIME ZONE zone;
    shown := last AT TIME ZONE zone;
    gap := shown <> local;
    IF gap THEN
        last := pgwork._cron_shift(zone, last - (shown - local), last);
        first := last;
    ELSE
        first := last - interval '26 hours';
        first := last - (((first AT TIME ZONE zone) - (first AT TIME ZONE 'UTC')) - ((last AT TIME ZONE zone) - (last AT TIME ZONE 'UTC')));
        IF first > last OR first AT TIME ZONE zone <> local THEN
            first := last;
        END IF;
    END IF;
END $$;

-- Since PostgreSQL 18 AT TIME ZONE first reads a name as an abbreviation of the session's own zone: in a session at 'UTC+5', UTC
-- is five hours behind itself. So this function sets the session's zone, also for the functions that it calls.
CREATE FUNCTION pgwork._cron_after(e pgwork._cron, zone text, after timestamptz, anchor timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    local timestamp;
    here record;
    again timestamptz; -- the first match in the second pass of an overlap
BEGIN
    IF e.every_s IS NOT NULL THEN
        RETURN anchor + (floor(extract(epoch FROM after - anchor) / e.every_s) + 1) * e.every_s * interval '1 s';
    END IF;
    after := date_trunc('second', after);
    local := after AT TIME ZONE zone;
    IF e.wild THEN
        SELECT * INTO here FROM pgwork._cron_at(zone, local);
        IF here.last > after THEN
            again := pgwork._cron_shift(zone, after, here.last);
            SELECT a.last INTO again FROM pgwork._cron_at(zone, pgwork._cron_local(e, (again AT TIME ZONE zone) - interval '1 s')) a;
        END IF;
    END IF;
    FOR i IN 1 .. 100 LOOP -- usually none: a gap or an overlap takes one more
        local := pgwork._cron_local(e, local);
        SELECT * INTO here FROM pgwork._cron_at(zone, local);
        IF NOT e.wild THEN
            IF here.first > after THEN
                RETURN here.first;
            END IF;
            -- Local times shown before the clock went back: continue from the highest of them.
            local := (pgwork._cron_shift(zone, here.first, after) - interval '1 s') AT TIME ZONE zone;
        ELSIF here.gap THEN
            local := (here.first AT TIME ZONE zone) - interval '1 s';
        ELSE
            RETURN least(again, CASE WHEN here.first > after THEN here.first ELSE here.last END);
        END IF;
    END LOOP;
    RAISE EXCEPTION 'argument zone is "%": cannot compute the next time', left(zone, 80) USING ERRCODE = 'PW001',
        HINT = 'use a zone of pg_timezone_names';
END $$;

CREATE FUNCTION pgwork._check_instant(argument text, at timestamptz) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A timestamp can hold the year 294276, so the next time after it is still in range.
    PERFORM pgwork._refuse_unless(at BETWEEN '1700-01-01 UTC' AND '10000-01-01 UTC', argument, at::text, '1700-01-01 to 10000-01-01');
END $$;

-- Whether the name of a zone is also an abbreviation with another offset. AT TIME ZONE prefers the
-- abbreviation: CET is one hour ahead of UTC all year, but the zone CET has summer time. The setting TimeZone
-- prefers the zone. Abbreviations depend on the session (timezone_abbreviations; since PostgreSQL 18 also its
-- time zone), and another session will fire the schedule. So any possible abbreviation counts.
CREATE FUNCTION pgwork._zone_shadowed(zone text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    IF upper(zone COLLATE "C") = ANY ('{CET,EET,EST,HST,MET,MST,WET}') THEN
        RETURN true;
    ELSIF zone COLLATE "C" LIKE '%/%' OR NOT EXISTS (SELECT FROM pg_timezone_abbrevs a WHERE a.abbrev = upper(zone COLLATE "C")) THEN
        RETURN false;
    END IF;
    PERFORM set_config('timezone', zone, true);
    RETURN EXISTS (SELECT FROM unnest('{2026-01-01 12:00+00,2026-07-01 12:00+00}'::timestamptz[]) t WHERE t::timestamp <> t AT TIME ZONE zone);
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false; -- no zone has this name
END $$;

-- The name of a zone in the server's spelling, or PW001. AT TIME ZONE also accepts values that are refused here: abbreviations (CST), POSIX
-- rules, whose sign is inverted (GMT+3 is three hours behind), offsets (+03:00), and zones that count leap seconds (right/UTC), whose clock
-- never shows our times. Reading the list of zones takes a tenth of a second, so the setting is tried first. The setting also accepts text
-- with a digit and no slash, with a comma or a bracket. Names with a digit and no slash, such as EST5EDT, are searched in the list.
CREATE FUNCTION pgwork._check_zone(zone text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    is_named text;
BEGIN
    IF zone ~ '^[A-Za-z_-]+$|^[A-Za-z_]+/[A-Za-z0-9_/+-]+$' COLLATE "C" THEN
        BEGIN
            PERFORM set_config('timezone', zone, true);
            is_named := current_setting('timezone');
        EXCEPTION WHEN invalid_parameter_value THEN
            NULL;
        END;
    ELSE
        SELECT z.name INTO is_named FROM pg_timezone_names z WHERE lower(z.name COLLATE "C") = lower(zone COLLATE "C") ORDER BY z.name <> zone LIMIT 1;
    END IF;
    PERFORM pgwork._refuse_unless(is_named IS NOT NULL, 'zone', zone, 'a name in pg_timezone_names, such as Europe/Berlin');
    PERFORM pgwork._refuse_unless(NOT pgwork._zone_shadowed(is_named), 'zone', zone,
                                  'a zone named after a place, such as Europe/Berlin: this name is also an abbreviation, which has no summer time');
    RETURN is_named;
END $$;

CREATE FUNCTION pgwork.cron_next(expression text, zone text DEFAULT 'UTC', after timestamptz DEFAULT clock_timestamp(),
    anchor timestamptz DEFAULT '1970-01-01 UTC') RETURNS timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._check_instant('after', after), pgwork._check_instant('anchor', anchor);
    zone := pgwork._check_zone(zone);
    RETURN pgwork._cron_after(pgwork._cron_parse(expression), zone, after, anchor);
END $$;

CREATE FUNCTION pgwork.cron_times(expression text, zone text DEFAULT 'UTC', n integer DEFAULT 10, after timestamptz DEFAULT clock_timestamp(),
    anchor timestamptz DEFAULT '1970-01-01 UTC') RETURNS TABLE (at timestamptz, local text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    e pgwork._cron := pgwork._cron_parse(expression);
    ahead interval;
BEGIN
    PERFORM pgwork._check_instant('after', after), pgwork._check_instant('anchor', anchor);
    zone := pgwork._check_zone(zone);
    PERFORM pgwork._refuse_unless(n BETWEEN 1 AND 10000, 'n', n::text, '1..10000');
    at := after;
    FOR i IN 1 .. n LOOP
        at := pgwork._cron_after(e, zone, at, anchor);
        PERFORM pgwork._refuse_unless(at < '30000-01-01 UTC', 'n', n::text, '1..' || (i - 1) || ': later times are after the year 30000');
        ahead := (at AT TIME ZONE zone) - (at AT TIME ZONE 'UTC');
        local := to_char(at AT TIME ZONE zone, 'Dy YYYY-MM-DD HH24:MI:SS')
                 || CASE WHEN ahead < interval '0' THEN ' -' ELSE ' +' END
                 || to_char(greatest(ahead, -ahead), CASE WHEN extract(second FROM ahead) = 0 THEN 'HH24:MI' ELSE 'HH24:MI:SS' END);
        RETURN NEXT;
    END LOOP;
END $$;

COMMENT ON FUNCTION pgwork.cron_next(text, text, timestamptz, timestamptz) IS 'The first time after `after` that matches an expression in a zone; anchor: the phase of @every.';
COMMENT ON FUNCTION pgwork.cron_times(text, text, integer, timestamptz, timestamptz) IS 'The next n times of an expression, and the local times in the zone.';
