# an operation id is not looked up
# function: _begin
# roles: producer worker reaper
# faults: lost_answer
# pace: 30
s/WHILE _begin.op IS NOT NULL LOOP/WHILE false LOOP/
