# a refused completion frees a place
# function: _complete
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/    tokens := pgwork._tokens(ids, tokens);/&\n    PERFORM pgwork._leave(q.id, ids);/
