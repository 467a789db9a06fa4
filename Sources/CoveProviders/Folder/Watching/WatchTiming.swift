/// How long the watcher waits for what, in nanoseconds.
struct WatchTiming: Sendable {
    /// A batch of changes ends when nothing has happened for this long.
    var quiet: Int64 = 50_000_000
    /// A batch lasts no longer than this.
    var limit: Int64 = 500_000_000
    /// A file written to but not closed is reported when it has been quiet for this long.
    var unfinished: Int64 = 1_000_000_000
    /// A file written to all the time is reported this often.
    var unfinishedLimit: Int64 = 10_000_000_000
    /// Directories without a watch are looked at this often.
    var poll: Int64 = 5_000_000_000
    /// All directories are looked at this often.
    var rescan: Int64
    /// A source that is gone is looked for this often.
    var lost: Int64 = 1_000_000_000

    init(rescan: Duration = .seconds(300)) {
        let (seconds, attoseconds) = rescan.components
        self.rescan = max(1_000_000, seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
