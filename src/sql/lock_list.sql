-- Lists holders, then waiters, of one lock or (NULL) of all.
-- params: name text
-- returns: name text, held boolean, shared boolean, pid int, application text, username text, client text, since timestamptz, fence bigint
SELECT l.name, l.state = 'held', l.mode = 'shared', l.pid, l.application, l.username, l.client, l.since, l.fence
  FROM pgwork.lock_list($1) l
