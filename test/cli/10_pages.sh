# Man pages and completion know every option.
. "$(dirname "$0")/tap"
code 'pages and completions know every option' 0 sh "$top/test/lint/options.sh"
is 'the table of the properties is what they are' "$(sed -n '/^| Property/,/^$/p' "$top/doc/properties.md")" "$(unset PGWORK_DSN && sh "$top/test/lint/properties.sh")"
if command -v bash >/dev/null; then
    offer() { # offer WORD...: what is offered for the last one
        bash -c '. "$0"; COMP_WORDS=(pgwork "$@"); COMP_CWORD=$#; _pgwork; printf "%s\n" "${COMPREPLY[@]}"' \
            "$top/examples/pgwork/completion/pgwork.bash" "$@" 2>/dev/null
    }
    pgwork -q migrate
    pgwork queue create 'thumbs'
    is 'bash offers commands' "$(offer mig)" migrate
    is 'verbs' "$(offer queue cr)" create
    is 'options' "$(offer enqueue thumbs --key-s)" --key-scope
    is 'words of an option' "$(offer enqueue thumbs --key-scope re)" ready
    is 'words of switches' "$(offer queue set thumbs --notify of)" off
    is 'words of ls -s, which is a switch of lock' "$(offer ls -s re)/$(offer lock -s re)" ready/
    is 'queues' "$(offer claim th)" thumbs
    pgwork queue create 'ko $(>obeyed)'
    pgwork -q cron add 'ko `>obeyed`' @daily >/dev/null
    is 'names as they are typed, and does not do what they say' "$(cd "$tmp" && offer claim ko && offer cron rm ko && test ! -e obeyed && echo unheeded)" \
        'ko\ \$\(\>obeyed\)
ko\ \`\>obeyed\`
unheeded'
fi
exit 0
