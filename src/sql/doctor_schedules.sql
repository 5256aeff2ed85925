-- Finds schedules with a fault.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH word AS ( -- the name, quoted for a shell
    SELECT s.name, CASE WHEN s.name LIKE '-%' THEN '-- ' ELSE '' END || '''' || replace(s.name, '''', '''"''"''') || '''' AS typed FROM pgwork.schedules s
), found AS (
    SELECT 2 AS grade, 'schedules' AS check_name, format('schedule "%s" does not run: %s', s.name, s.error) AS finding,
           format('Since %s. Fix the cause or the definition. The schedule is tried again by itself, and this finding ends with its next good tick.', date_trunc('second', s.error_at)) AS advice
      FROM pgwork.schedules s WHERE s.error IS NOT NULL AND NOT s.paused
    UNION ALL
    SELECT 2, 'schedules', format('schedule "%s" is overdue by %s', s.name, date_trunc('second', clock_timestamp() - d.due)),
           CASE WHEN s.queue IS NULL THEN 'No node claims its ticks: check that the program that calls pgw_cron_claim_due() runs.'
                ELSE 'Check that a reaper runs: it enqueues the ticks.' END
      FROM pgwork.schedules s
     CROSS JOIN LATERAL (SELECT least(s.asked, CASE WHEN NOT s.paused THEN s.next_at END) AS due) d
     WHERE s.error IS NULL AND s.slot IS NULL AND d.due < clock_timestamp() - interval '1 min'
    UNION ALL -- any node that claims gets such a tick
    SELECT 2, 'schedules', format('schedule "%s": its tick of %s timed out %s ago%s, and no node has claimed it since', s.name, s.slot,
                                  date_trunc('second', clock_timestamp() - s.until), ' with "' || s.holder || '"'),
           'Check that the program that calls pgw_cron_claim_due() runs.'
      FROM pgwork.schedules s WHERE NOT s.paused AND s.slot IS NOT NULL AND s.until < clock_timestamp() - interval '1 min'
    UNION ALL
    SELECT 1, 'schedules', format('schedule "%s" has recorded ticks up to %s, which is in the future', s.name, s.base),
           format('The server''s clock was set back. Nothing is due until that time. Run `pgwork cron pause %s`, then resume, to plan it again.', w.typed)
      FROM pgwork.schedules s JOIN word w USING (name) WHERE NOT s.paused AND s.base > clock_timestamp() + interval '1 min'
    UNION ALL
    SELECT 1, 'schedules', format('schedule "%s" is paused', s.name),
           format('Run `pgwork cron resume %s` when the reason is gone.', w.typed)
      FROM pgwork.schedules s JOIN word w USING (name) WHERE s.paused
)
SELECT grade, check_name, finding, advice FROM found
UNION ALL
SELECT 0, 'schedules', (SELECT count(*) FROM pgwork.schedules) || ' schedules, none with a fault', '' WHERE NOT EXISTS (SELECT FROM found)
