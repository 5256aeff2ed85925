# delayed jobs are ready half a second early
# function: promote
# roles: producer worker reaper
# faults: -
s/d.run_at <= now_is/d.run_at <= now_is + interval '500 ms'/g
