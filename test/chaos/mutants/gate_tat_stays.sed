# jobs that pass a gate take nothing from its rate
# function: _note_rates
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/coalesce(t.tat + p.taken \* t.step, t.tat) AS tat/t.tat AS tat/
