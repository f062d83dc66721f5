"""What is left in the workspace for the host to fetch or remove."""
import os
for i in range(40):
    os.mkdir(f"d{i}"); os.chdir(f"d{i}")
    for j in range(20): open(f"f{j}", "w").close()
os.chdir("/workspace")
os.mkdir("locked"); open("locked/in", "w").write("x"); os.chmod("locked", 0)
with open("sparse", "wb") as f: f.truncate(1 << 45)
open("good", "w").write("good")
os.mkfifo("fifo")
os.mkdir("swap"); open("swap/f", "w").write("mine")
# Names that no terminal likes.
open("a\nb\x1b[31m\u202e", "w").close()
