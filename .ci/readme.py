"""Print the commands of a README's bash blocks, one per line, without comments."""

import re
import sys
from pathlib import Path

for block in re.findall(
    r"^```bash\n(.*?)^```", Path(sys.argv[1]).read_text(), re.DOTALL | re.MULTILINE
):
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            print(line)
