# a statement is taken for done at its first result, although its commit fails
# file: src/pq/pq.c
# roles: producer worker reaper
# faults: commit_fails
/^static void pq_note/,/^}/s/^    default:$/    default: if (op->answered) break;/
