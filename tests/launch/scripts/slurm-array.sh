#!/bin/bash
#SBATCH --job-name=demo-1a2b3c
#SBATCH --array=0-2%2
#SBATCH --output=slurm-%A_%a.txt
#SBATCH --open-mode=append
#SBATCH --account=science
#SBATCH --partition=gpu
#SBATCH --qos=normal
#SBATCH --time=2:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --mem=64G
#SBATCH --dependency=afterok:12
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --exclusive
#SBATCH --constraint=a100
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
module load cuda/12.4
source ~/env.sh
# The current folder is no place to find modules in.
export PYTHONSAFEPATH=1
export PYTHONPATH='/home/me/my parts'
trials=(
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-0'
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-1'
'/scratch/it'"'"'s a "weird" földer, 100 % of $HOME/trials/P1B2-2'
)
folder="${trials[SLURM_ARRAY_TASK_ID]}"
[ -w "$folder" ] || { echo "joulelab: $folder cannot be written on $(uname -n): the nodes must share the folder of the study" >&2; exit 73; }
exec 9>>"$folder/.turn.lock"
apptainer exec --nv "$HOME/an image.sif" '/opt/a venv/bin/python' -P -m joulelab.launch.job_start "$folder" slurm "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" demo-1a2b3c 9 || exit
# Who ends the job asks the training first; this script stays until that has put things back.
trap : TERM
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((10000 + (SLURM_JOB_ID) % 20000))
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 apptainer exec --nv "$HOME/an image.sif" '/opt/a venv/bin/python' -P -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint="$head:$port" --rdzv-id="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" -m joulelab.train.worker "$folder" 2>>"$folder/log.txt" | (trap '' TERM; exec grep --line-buffered -av '^{"progress":') >>"$folder/log.txt"
status=${PIPESTATUS[0]}
rm -f "$folder/running.json"
exit "$status"
