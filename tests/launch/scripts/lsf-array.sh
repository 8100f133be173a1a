#!/bin/bash
#BSUB -J "demo[1-2]%2"
#BSUB -P science
#BSUB -q batch
#BSUB -nnodes 2
#BSUB -W 2:00
#BSUB -w "done(12)"
#BSUB -r
#BSUB -wa TERM -wt 2
#BSUB -o lsf-%J_%I.txt
#BSUB -alloc_flags smt4
module load cuda/12.4
source ~/env.sh
# The current folder is no place to find modules in.
export PYTHONSAFEPATH=1
export PYTHONPATH='/home/me/my parts'
trials=(
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-0'
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-1'
)
folder="${trials[LSB_JOBINDEX - 1]}"
[ -w "$folder" ] || { echo "joulelab: $folder cannot be written on $(uname -n): the nodes must share the folder of the study" >&2; exit 73; }
exec 9>>"$folder/.turn.lock"
'/opt/a venv/bin/python' -P -m joulelab.launch.job_start "$folder" lsf "$LSB_JOBID[${LSB_JOBINDEX:-0}]" demo 9 || exit
# Who ends the job asks the training first; this script stays until that has put things back.
trap : TERM
head=$(grep -v batch "$LSB_DJOB_HOSTFILE" | head -n 1)
port=$((10000 + (LSB_JOBID + ${LSB_JOBINDEX:-0}) % 20000))
jsrun -n 2 -r 1 -a 1 -c 42 -g 6 '/opt/a venv/bin/python' -P -m torch.distributed.run --nnodes=2 --nproc-per-node=6 --rdzv-backend=c10d --rdzv-endpoint="$head:$port" --rdzv-id="$LSB_JOBID[${LSB_JOBINDEX:-0}]" -m joulelab.train.worker "$folder" 2>>"$folder/log.txt" | (trap '' TERM; exec grep --line-buffered -av '^{"progress":') >>"$folder/log.txt"
status=${PIPESTATUS[0]}
rm -f "$folder/running.json"
exit "$status"
