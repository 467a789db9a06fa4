internal import CoveCore

/// How long the watcher waits for what.
struct WatchTiming: Sendable {
    /// A batch of changes ends when nothing has happened for this long.
    var quiet = TimeSpan.milliseconds(50)
    /// A batch lasts no longer than this.
    var limit = TimeSpan.milliseconds(500)
    /// A file written to but not closed is reported when it has been quiet for this long.
    var unfinished = TimeSpan.seconds(1)
    /// A file written to all the time is reported this often.
    var unfinishedLimit = TimeSpan.seconds(10)
    /// Directories without a watch are looked at this often.
    var poll = TimeSpan.seconds(5)
    /// All directories are looked at this often.
    var rescan: TimeSpan
    /// A source that is gone is looked for this often.
    var lost = TimeSpan.seconds(1)

    init(rescan: TimeSpan = .seconds(300)) {
        self.rescan = max(.milliseconds(1), rescan)
    }
}
