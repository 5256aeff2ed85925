# shellcheck shell=sh
# from before the enqueue to the handler, 300 jobs a second, idle workers
for r in $(seq "$rounds"); do
    for w in 1 4; do
        pickup q "$w" 300 $((seconds * 300)) | while read -r name value; do
            result pickup "$name, $w workers" pgwork-lib "$value" ms
        done
    done
done
