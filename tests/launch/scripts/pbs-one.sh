#!/bin/bash
#PBS -N least
#PBS -l select=1
#PBS -l place=scatter
#PBS -r y
#PBS -j oe
cd "$PBS_O_WORKDIR" || exit
# The current folder is no place to find modules in.
export PYTHONSAFEPATH=1
folder='/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-0'
[ -w "$folder" ] || { echo "joulelab: $folder cannot be written on $(uname -n): the nodes must share the folder of the study" >&2; exit 73; }
exec 9>>"$folder/.turn.lock"
'/opt/a venv/bin/python' -P -m joulelab.launch.job_start "$folder" pbs "$PBS_JOBID" least 9 || exit
# Who ends the job asks the training first; this script stays until that has put things back.
trap : TERM
env '/opt/a venv/bin/python' -P -m joulelab.train.worker "$folder" 2>>"$folder/log.txt" | (trap '' TERM; exec grep --line-buffered -av '^{"progress":') >>"$folder/log.txt"
status=${PIPESTATUS[0]}
rm -f "$folder/running.json"
exit "$status"
