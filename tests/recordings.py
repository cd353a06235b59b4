"""Made-up recordings of a server, in the files that `kvlab.validation` reads."""

from __future__ import annotations

from pathlib import Path

from kvlab.validation.recordings import SETUPS

HEAD = "request_id,prompt_tokens,output_tokens,arrival_s,queued_s,scheduled_s,first_token_s,last_token_s\n"
SECONDS = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n"


def made_up_recording(data: Path) -> Path:
    """The folder, with both runs in it: 40 requests, one each 0.1 s, of a server that answers each in a second."""
    for setup in SETUPS:
        folder = data / "runs" / setup.key
        folder.mkdir(parents=True)
        rows = [f"{i},100,20,{i / 10},{i / 10},{i / 10},{i / 10 + 0.05},{i / 10 + 1}\n" for i in range(40)]
        (folder / "requests.csv").write_text(HEAD + "".join(rows))
        (folder / "timeseries.csv").write_text(SECONDS + "".join(f"{t}.0,0,0,10,0,5.0\n" for t in range(1, 6)))
    return data
