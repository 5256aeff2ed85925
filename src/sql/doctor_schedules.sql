-- Schedules that do not run as they should.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH word AS ( -- for a shell
    SELECT s.name, CASE WHEN s.name LIKE '-%' THEN '-- ' ELSE '' END || '''' || replace(s.name, '''', '''"''"''') || '''' AS typed FROM pgwork.schedules s
), found AS (
    SELECT 2 AS grade, 'schedules' AS check_name, format('schedule "%s" does not run: %s', s.name, s.error) AS finding,
           format('Since %s. Mend the cause, or the definition: it is tried again by itself, and this is over when a tick ends well.', date_trunc('second', s.error_at)) AS advice
      FROM pgwork.schedules s WHERE s.error IS NOT NULL AND NOT s.paused
    UNION ALL
    SELECT 2, 'schedules', format('schedule "%s" is overdue by %s', s.name, date_trunc('second', clock_timestamp() - d.due)),
           CASE WHEN s.queue IS NULL THEN 'No node asks for its ticks: see that the program that calls pgw_cron_claim_due() runs.'
                ELSE 'See that a reaper runs: it enqueues the ticks.' END
      FROM pgwork.schedules s
     CROSS JOIN LATERAL (SELECT least(s.asked, CASE WHEN NOT s.paused THEN s.next_at END) AS due) d
     WHERE s.error IS NULL AND s.slot IS NULL AND d.due < clock_timestamp() - interval '1 min'
    UNION ALL -- any node that asks gets such a tick
    SELECT 2, 'schedules', format('schedule "%s": its tick of %s ran out of time %s ago%s, and no node has asked for it since', s.name, s.slot,
                                  date_trunc('second', clock_timestamp() - s.until), ' with "' || s.holder || '"'),
           'See that the program that calls pgw_cron_claim_due() runs.'
      FROM pgwork.schedules s WHERE NOT s.paused AND s.slot IS NOT NULL AND s.until < clock_timestamp() - interval '1 min'
    UNION ALL
    SELECT 1, 'schedules', format('schedule "%s" has ticks noted up to %s, which is still to come', s.name, s.base),
           format('The server''s clock was set back. Until that time nothing is due; `pgwork cron pause %s`, then resume, plans it afresh.', w.typed)
      FROM pgwork.schedules s JOIN word w USING (name) WHERE NOT s.paused AND s.base > clock_timestamp() + interval '1 min'
    UNION ALL
    SELECT 1, 'schedules', format('schedule "%s" is paused', s.name),
           format('When that is over: `pgwork cron resume %s`.', w.typed)
      FROM pgwork.schedules s JOIN word w USING (name) WHERE s.paused
)
SELECT grade, check_name, finding, advice FROM found
UNION ALL
SELECT 0, 'schedules', (SELECT count(*) FROM pgwork.schedules) || ' schedules, none in trouble', '' WHERE NOT EXISTS (SELECT FROM found)
