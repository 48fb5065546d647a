"""What the command `labkit` does.

__main__     finds the command and runs it
jupyterlab   `labkit lab`, JupyterLab, which owns the lab that its notebooks share
front_page   the table of lessons that it opens
lessons      copied into an empty folder, and put back as they were
page/        the lab in JupyterLab's status bar, and what else its page is given
reset        `labkit reset`, a lesson as it was, with a copy of what it is
submit       `labkit submit`, a learner's answers as one file
grade/       `labkit grade`, answers that were handed in, judged again, each in a sandbox
run          `labkit run`, a script where a lab's ranks would be
doctor       `labkit doctor`, what keeps a lab from starting
stop         `labkit stop`, end every lab of this user
share        `labkit share`, let the teacher see how far one is
classroom/   `labkit class`, what learners share, as a page
export/      `labkit export`, a lesson's cells as a plain script
"""
