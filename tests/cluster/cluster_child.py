"""A child process as `ocria.document.workers.child`, in which documents with certain titles do what damaged files do to
libraries in C. `install` makes a process start such children; Ray calls it in each of its workers."""

import os
import signal
import time

CRASH_AT_OPENING = b"%crash at opening"


def install():
    from ocria.document.workers import process

    if "cluster_child" not in process._START:
        process._START = process._START.replace("ocria.document.workers.child", "cluster_child")


def misbehave(title, number):
    what, _, where = title.partition(" ")
    if what == "CRASH" and int(where) == number:
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "KILL" and not os.path.exists(where):
        open(where, "w").close()
        os.kill(os.getppid(), signal.SIGKILL)  # the engine that asked
    if what == "SLOW":
        with open(where, "a", encoding="ascii") as log:
            log.write(f"{number}\n")
        if not os.path.exists(f"{where}.fast"):
            time.sleep(0.7)


def main():
    from ocria.document import pdf
    from ocria.document.workers import child

    look, init = pdf.PdfPage.look, pdf.PdfSource.__init__

    def faulty_look(page):
        misbehave(page.source.pdf.metadata["title"] or "", page.number)
        return look(page)

    def faulty_init(source, path, content, *rest):
        if bytes(content[-20:]).rstrip().endswith(CRASH_AT_OPENING):
            os.kill(os.getpid(), signal.SIGSEGV)
        init(source, path, content, *rest)

    pdf.PdfPage.look, pdf.PdfSource.__init__ = faulty_look, faulty_init
    child.main()
