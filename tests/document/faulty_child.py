"""A child process as `ocria.document.workers.child`, in which pages that bear certain words do what damaged files do
to libraries in C."""

import ctypes
import os
import signal

from ocria.document import pdf
from ocria.document.workers import child


def misbehave(text):
    if "CRASH" in text:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "ABORT" in text:
        os.write(2, b"terminate called after throwing\nstd::bad_alloc\n")
        os.abort()
    if "HANG" in text:
        marker = text.split("HANG")[1].partition(" ")[0]
        if marker.startswith("/"):
            open(marker, "w").close()  # so that others know when
        ctypes.PyDLL(None).sleep(1000)  # with the lock of the interpreter, as MuPDF
    if "GREED" in text:
        bytearray(1 << 46)
    if "PRINT" in text:
        os.write(1, b"printed by a library\n" * 5000)
    if "ONCE" in text:
        marker = text.split("ONCE")[1].split()[0]
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGSEGV)


def main():
    look, lay_out, init = pdf.PdfPage.look, pdf.PdfPage.lay_out, pdf.PdfSource.__init__

    def faulty_look(page):
        misbehave(page.source.pdf[page.number - 1].get_text())
        return look(page)

    def faulty_lay_out(page):
        if "COLLAPSE" in page.source.pdf[page.number - 1].get_text():
            misbehave("CRASH")
        return lay_out(page)

    def faulty_init(source, path, content, *rest):
        misbehave(content[-20:].decode("latin-1"))
        init(source, path, content, *rest)

    pdf.PdfPage.look, pdf.PdfPage.lay_out, pdf.PdfSource.__init__ = faulty_look, faulty_lay_out, faulty_init
    child.main()
