"""The commands for messages: publish, consume, follow, look, and trace them.

Must not import other commands; it uses `miniqueue.commands.shell` and `miniqueue.commands.stored`. Read in this order:

    pub        publishes an argument, standard input, or each line of it; `lines` reads the lines
    sub        prints messages, or runs a program for each, and acknowledges them; `consuming` is its loop,
               `program` runs a program, `span` reads what is retained
    tail       prints the log without consuming; `log` reads it, `stored` reads backups
    peek       shows messages that wait
    trace      prints what happened to a message; `timeline` makes the lines
"""
