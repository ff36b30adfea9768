"""How the panes are laid out. Widths and heights of the screen are classes: see the breakpoints of `OcriaApp`."""

CSS = """
Screen { layout: vertical; overflow: hidden; }
#headline { height: 1; background: $panel; }
#status { height: 1; display: none; }
#body { height: 1fr; }
#left { width: 37; }
#queue { height: 1fr; min-height: 5; }
#engine { height: 24; text-wrap: nowrap; text-overflow: clip; }
#centre { width: 1fr; }
#strip { height: 3; }
#read { height: 1fr; }
#page { width: 2fr; }
#text { width: 3fr; padding: 0 1; }
#log { height: 8; }
.pane {
    border: round $panel;
    border-title-color: $text-muted;
    border-subtitle-color: $text-muted;
    background: $background;
    scrollbar-size-vertical: 1;
}
.pane:focus { border: heavy $accent; border-title-color: $accent; border-title-style: bold; }
.-hidden { display: none; }

.-wide #left { width: 44; }
.-wide #engine { height: 32; }
.-short #engine { height: 17; }
.-tall #log { height: 10; }

/* One pane at a time, page and text beside each other; the keys 1 to 5 choose. */
.-narrow #left, .-narrow #log { display: none; }
.-narrow #status { display: block; }
.-narrow #page { width: 30; }
.-narrow #text { width: 1fr; }
.-narrow.-show-queue #left, .-narrow.-show-engine #left { display: block; width: 1fr; }
.-narrow.-show-queue #centre, .-narrow.-show-engine #centre, .-narrow.-show-log #read { display: none; }
.-narrow.-show-queue #engine, .-narrow.-show-engine #queue { display: none; }
.-narrow.-show-engine #engine { height: 1fr; }
.-narrow.-show-log #log { display: block; height: 1fr; }
.-narrow.-show-log #body { height: auto; max-height: 4; }
.-narrow.-show-log #centre { height: auto; }

.-ascii .pane, .-ascii .pane:focus { border: ascii $panel; }
.-ascii .pane:focus { border: ascii $accent; }
"""
