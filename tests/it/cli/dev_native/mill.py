import logging, os, sys, threading
from gristmill_guest import *

SERVES = "first"
done = 0


@handler
def mill(job):
    global done
    done += 1
    match job.json():
        case "version":
            log.info("grinding", flour=config.get("flour"))
            return SERVES
        case "speak":
            print("printed")
            print("half", end="")
            print("to stderr", file=sys.stderr)
            logging.getLogger("wheel").warning("logged")
            os.system("echo shouted")
            progress(0.5, "half way")
            threading.Thread(target=print, args=["by a thread"]).start()
            return job.meta("colour")
        case "count":
            state.set_json(state.json(0) + 1)
            return state.get()
        case "resume":
            if job.checkpoint is None:
                checkpoint(b"half")
                raise Retry("later", "after half of it")
            return job.checkpoint + str(job.attempt).encode()
        case "follow":
            return [enqueue("mill", json="version", priority="high", after_jobs=[job.id]), job.deadline - now() <= 30_000]
        case "nowhere":
            enqueue("nowhere")
        case "crash":
            return wheat
        case "flour":
            enqueue("mill", 7)
        case "exit":
            os._exit(3)
        case "loop":
            while not is_cancelled():
                pass
        case "pid":
            return [os.getpid(), done]
        case "no":
            raise Reject("no", "not here \ud800")
