# a node finishes a tick that it has lost
# function: cron_finish
# roles: node worker reaper
# faults: -
s/WHERE t.token = cron_finish.token FOR UPDATE/WHERE t.fence >= pgwork.token_number(cron_finish.token) AND t.queue IS NULL ORDER BY t.fence LIMIT 1 FOR UPDATE/
