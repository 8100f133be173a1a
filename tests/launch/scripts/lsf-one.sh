#!/bin/bash
#BSUB -J "least"
#BSUB -nnodes 1
#BSUB -r
#BSUB -o lsf-%J.txt
# The current folder is no place to find modules in.
export PYTHONSAFEPATH=1
folder='/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-0'
[ -w "$folder" ] || { echo "joulelab: $folder cannot be written on $(uname -n): the nodes must share the folder of the study" >&2; exit 73; }
exec 9>>"$folder/.turn.lock"
'/opt/a venv/bin/python' -P -m joulelab.launch.job_start "$folder" lsf "$LSB_JOBID[${LSB_JOBINDEX:-0}]" least 9 || exit
# Who ends the job asks the training first; this script stays until that has put things back.
trap : TERM
jsrun -n 1 -r 1 -a 1 -c ALL_CPUS '/opt/a venv/bin/python' -P -m joulelab.train.worker "$folder" 2>>"$folder/log.txt" | (trap '' TERM; exec grep --line-buffered -av '^{"progress":') >>"$folder/log.txt"
status=${PIPESTATUS[0]}
rm -f "$folder/running.json"
exit "$status"
