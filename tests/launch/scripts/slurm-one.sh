#!/bin/bash
#SBATCH --job-name=least
#SBATCH --output=slurm-%j.txt
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
# The current folder is no place to find modules in.
export PYTHONSAFEPATH=1
folder='/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-0'
[ -w "$folder" ] || { echo "joulelab: $folder cannot be written on $(uname -n): the nodes must share the folder of the study" >&2; exit 73; }
exec 9>>"$folder/.turn.lock"
'/opt/a venv/bin/python' -P -m joulelab.launch.job_start "$folder" slurm "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" least 9 || exit
# Who ends the job asks the training first; this script stays until that has put things back.
trap : TERM
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --kill-on-bad-exit=1 '/opt/a venv/bin/python' -P -m joulelab.train.worker "$folder" 2>>"$folder/log.txt" | (trap '' TERM; exec grep --line-buffered -av '^{"progress":') >>"$folder/log.txt"
status=${PIPESTATUS[0]}
rm -f "$folder/running.json"
exit "$status"
