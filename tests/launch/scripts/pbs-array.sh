#!/bin/bash
#PBS -N demo
#PBS -J 0-1%2
#PBS -A science
#PBS -q preemptable
#PBS -l select=2:ncpus=64:ngpus=4:mem=400gb
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -l filesystems=home:eagle
#PBS -W depend=afterok:12
#PBS -r y
#PBS -j oe
#PBS -m n
cd "$PBS_O_WORKDIR" || exit
module load cuda/12.4
source ~/env.sh
# The current folder is no place to find modules in.
export PYTHONSAFEPATH=1
export PYTHONPATH='/home/me/my parts'
trials=(
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-0'
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-1'
)
folder="${trials[PBS_ARRAY_INDEX]}"
[ -w "$folder" ] || { echo "joulelab: $folder cannot be written on $(uname -n): the nodes must share the folder of the study" >&2; exit 73; }
exec 9>>"$folder/.turn.lock"
'/opt/a venv/bin/python' -P -m joulelab.launch.job_start "$folder" pbs "$PBS_JOBID" demo 9 || exit
# Who ends the job asks the training first; this script stays until that has put things back.
trap : TERM
head=$(head -n 1 "$PBS_NODEFILE")
port=$((10000 + (${PBS_JOBID%%[!0-9]*} + ${PBS_ARRAY_INDEX:-0}) % 20000))
mpiexec -n 2 --ppn 1 --depth 64 --cpu-bind depth '/opt/a venv/bin/python' -P -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint="$head:$port" --rdzv-id="$PBS_JOBID" -m joulelab.train.worker "$folder" 2>>"$folder/log.txt" | (trap '' TERM; exec grep --line-buffered -av '^{"progress":') >>"$folder/log.txt"
status=${PIPESTATUS[0]}
rm -f "$folder/running.json"
exit "$status"
