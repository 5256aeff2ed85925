# a job may have one attempt more than its maximum
# function: _requeue
# roles: producer late worker sql reaper
# faults: -
s/j.attempt >= coalesce(j.max_attempts, q.max_attempts)/j.attempt > coalesce(j.max_attempts, q.max_attempts)/
