# bash completion for pgwork. It asks the server for queues and schedules, for at most a second.
_pgwork_queues() {
    timeout 1 pgwork --json -X call.timeout_ms=900 queue list --at-most 1 2>/dev/null |
        sed -n 's/^{"queue":"\([^"\\]*\)".*/\1/p'
}

_pgwork_schedules() {
    timeout 1 pgwork --json -X call.timeout_ms=900 cron list 2>/dev/null |
        sed -n 's/^{"schedule":"\([^"\\]*\)".*/\1/p'
}

# _pgwork_offer COMMAND: offers the names that it prints. Not with compgen -W, which would run a $(...) in a name.
_pgwork_offer() {
    local name
    COMPREPLY=()
    while IFS= read -r name; do
        [[ $name = "$cur"* ]] && COMPREPLY+=("$(printf %q "$name")")
    done < <("$1")
}

_pgwork() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="migrate queue enqueue work claim complete fail extend release snooze progress reap ls show
        cancel reschedule retry dead bulk log wait stats top workers demand metrics ui doctor cron lock locks sem rate table groups help version"
    local global="-d --dsn-file --schema -X --set --json --no-color -q --quiet -v --verbose -h --help
        -V --version"
    local command= verb= i IFS=$' \t\n'
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) [[ $command = work || $command = lock || $command = sem || $command = rate ]] && { COMPREPLY=($(compgen -c -- "$cur")); return; } ;;
        -d | --dsn-file | --schema | -X | --set) ((i++)) ;;
        -*) ;;
        *)
            if [[ -z $command ]]; then command=${COMP_WORDS[i]}
            elif [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; fi
            ;;
        esac
    done

    case $prev in
    -d | --dsn-file | -f | --file | -o | --out | --token-file | --act-dsn-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --state | -s) # a switch of lock
        [[ $command = lock ]] || { COMPREPLY=($(compgen -W "ready leased delayed gated dead done cancelled all" -- "$cur")); return; } ;;
    --notify | --payload-visible) COMPREPLY=($(compgen -W "on off" -- "$cur")); return ;;
    --expired) COMPREPLY=($(compgen -W "dead drop" -- "$cur")); return ;;
    --key-scope) COMPREPLY=($(compgen -W "unfinished ready period" -- "$cur")); return ;;
    --misfire) COMPREPLY=($(compgen -W "once skip all" -- "$cur")); return ;;
    --key-policy) COMPREPLY=($(compgen -W "skip replace delay error" -- "$cur")); return ;;
    -X | --set)
        COMPREPLY=($(compgen -S = -W "$(pgwork -X list 2>/dev/null | sed -n 's/^\([a-z][a-z_.]*\) .*/\1/p')" -- "$cur"))
        compopt -o nospace
        return ;;
    esac
    if [[ $command = enqueue && ($prev = -b || $prev = --body) ]]; then
        COMPREPLY=($(compgen -f -- "$cur"))
        return
    fi
    if [[ -z $command ]]; then
        COMPREPLY=($(compgen -W "$commands $global" -- "$cur"))
        return
    fi

    local own= verbs= queue=yes
    case $command in
    migrate) own="--dry-run" verbs="up status" queue= ;;
    queue)
        verbs="list create set pause resume hold unhold limit drain purge drop depth rate semaphore"
        case $verb in
        list) own="--at-most" queue= ;;
        depth) own="--at-most" ;;
        create | set) own="--lease --max-attempts --backoff --backoff-cap --retention --dead-retention
            --max-bytes --notify --expired --payload-visible" ;;
        purge) own="--state" ;;
        hold) own="--for --until --reason" ;;
        drop) own="--force" ;;
        rate) own="--per --burst" ;;
        esac
        ;;
    enqueue) own="-f --file -0 --null -J --json-lines -F --full --member --empty -b --body -k --kind -p --priority
        --delay --run-at --max-attempts --lease -t --tag --key --key-scope --key-policy --key-replace --key-period --group
        --expires --ttl --meta --op" ;;
    work) own="-j --jobs -n --max --once --until-empty --fair --lease --timeout --grace --pass --later --hold --kind --kind-jobs
        --kind-timeout -k --keep-output -b --body --literal --holder --" ;;
    claim) own="-n --max --lease --wait --in-order --holder" ;;
    complete) own="--output" ;;
    fail) own="-e --error --retry --dead" ;;
    extend) own="--lease" ;;
    snooze) own="--delay" ;;
    reap) own="--once" queue= ;;
    ls) own="-s --state -k --kind -t --tag --key --group --holder --error --older-than --newer-than -n --limit --after" ;;
    show) own="-Q --queue" queue= ;;
    reschedule) own="-k --kind --all -n --limit --delay --run-at" ;;
    dead)
        verbs="list redrive purge"
        case $verb in
        list) own="-k --kind -n --limit --after --by-error" ;;
        redrive) own="-k --kind -n --limit" ;;
        purge) own="-k --kind --older-than --all" ;;
        esac
        ;;
    cron)
        verbs="list add apply rm pause resume rename run next tick claim finish extend release" queue=
        case $verb in
        add) own="-z --tz -Q --queue -k --kind --payload -p --priority --max-attempts --lease -t --tag --key
            --misfire --misfire-max --grace --jitter --timeout --ttl --group" ;;
        next) own="-z --tz -n --count --after" ;;
        claim) own="--node" ;;
        release) own="--force" ;;
        apply) own="--prune -n --dry-run" queue= ;;
        finish) own="-e --error" ;;
        extend) own="--timeout" ;;
        esac
        if [[ $cur != -* && $prev != -* && " list rm pause resume rename run claim " = *" $verb "* ]]; then
            _pgwork_offer _pgwork_schedules
            return
        fi
        ;;
    stats) own="-w --watch -i --interval -n --count --at-most" ;;
    top) own="-i --interval --at-most --once" queue= ;;
    workers) own= ;;
    log) own="-n --limit" queue= ;;
    wait) own="-Q --queue --timeout" queue= ;;
    bulk)
        verbs="cancel redrive reschedule purge move priority"
        own="-s --state -k --kind -t --tag --key --group --holder --error --older-than --newer-than --all --dry-run -n --limit --delay --run-at --to -p --priority"
        ;;
    demand) own="--at-most -w --within" ;;
    metrics) own="-o --out --at-most --no-doctor" queue= ;;
    ui) own="-l --listen --prefix --token-file --proxy-header --act --act-dsn-file --payloads" queue= ;;
    lock) own="-s --shared -w --wait -n --no-wait -E --held-code --grace --pass --break --" queue= ;;
    locks) queue= ;;
    sem)
        verbs="create acquire extend release resize drop list run" queue=
        case $verb in
        acquire) own="--permits -w --wait -n --no-wait --ttl --holder" ;;
        run) own="--permits -w --wait -n --no-wait -E --held-code --ttl --grace --holder --pass --" ;;
        extend) own="--ttl" ;;
        drop) own="--force" ;;
        esac
        ;;
    rate)
        verbs="set drop ls take run" queue=
        case $verb in
        set) own="--per --burst" ;;
        take) own="-c --count -w --wait -n --no-wait -E --held-code" ;;
        run) own="-c --count -w --wait -n --no-wait -E --held-code --pass --" ;;
        esac
        ;;
    groups)
        verbs="list set reset hold unblock purge"
        case $verb in
        list) own="--at-most" ;;
        set) own="--limit --retry --rate --per --burst" ;;
        hold) own="--for" ;;
        esac
        ;;
    table)
        verbs="check init reap register unregister list" queue=
        own="--in -k --key --locked-by --expires-at --token --no-lease --version --claimable"
        case $verb in
        init) own="$own --apply --timeout" ;;
        reap) own="$own --batch" ;;
        unregister) own="--in" ;;
        list) own="" ;;
        esac
        ;;
    help) own="" verbs=$commands queue= ;;
    doctor | version) queue= ;;
    esac

    if [[ $cur = -* ]]; then
        COMPREPLY=($(compgen -W "$own $global" -- "$cur"))
    elif [[ -n $verbs && -z $verb ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
    elif [[ -n $queue || $prev = -Q || $prev = --queue ]]; then
        _pgwork_offer _pgwork_queues
    fi
}
complete -F _pgwork pgwork
