# length.awk: a test file of more than 600 lines says why it is not split: "Longer than 600 lines: REASON" in its first comment.
#   awk -f length.awk test/*/*.[ch]
function check() { if (lines > 600 && !reason) { print file ": " lines " lines, and no \"Longer than 600 lines: REASON\" in its first comment"; faults++ } }
FNR == 1 { check(); file = FILENAME; text = ""; reason = 0; comment = 1 }
{ lines = FNR }
/^#include|^#ifndef/ { comment = 0 }
comment { sub(/^ \*/, ""); text = text $0 " "; reason = text ~ /Longer +than +600 +lines: +[^ ]+ +[^ ]+/ }
END { check(); exit faults > 0 }
