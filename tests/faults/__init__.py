"""Faults: folders and files are damaged, options are hostile, processes are killed; the command line must hold.

python -m tests.faults                 all cases and all kills, and a table of them
python -m tests.faults --quick P N     part P of N of the cases of `make test`: some of every kind of damage and every command
python -m tests.faults --only TEXT     the cases whose name contains TEXT
python -m tests.faults --case N        one case, with all that it printed
python -m tests.faults --kills N       N kills alone
python -m tests.faults --write FILE    all, and the table into FILE, between its two marks
"""
