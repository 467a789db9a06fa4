internal import CoveCore

/// Why a command ends with an error: whom it concerns, what happened, and what to do.
struct Failure: Error, Sendable {
    /// The path, account or option; nil where there is none to name.
    var subject: String?
    /// What happened.
    var what: String
    /// What to do about it.
    var remedy: String?
    /// What the daemon's error says, where a system call would have failed so.
    var errno: Errno?
    /// True when the daemon has gone in the middle.
    var isDaemonGone = false
    /// 1 for a failure, 2 for a wrong command line.
    var exitCode: Int32 = 1

    init(_ subject: String?, _ what: String, _ remedy: String? = nil) {
        self.subject = subject
        self.what = what
        self.remedy = remedy
    }

    /// Takes a line that names its subject and remedy itself.
    init(line: String) { what = line }

    /// A command line that can't be understood.
    static func usage(_ subject: String?, _ what: String, _ remedy: String? = nil) -> Failure {
        var failure = Failure(subject, what, remedy)
        failure.exitCode = 2
        return failure
    }

    /// Does what may fail with an errno, and says so of the subject: `SUBJECT: WHAT: no such file; REMEDY`.
    @discardableResult
    static func explaining<Value>(
        _ subject: String?,
        _ what: String = "",
        remedy: String,
        _ body: () throws(Errno) -> Value
    ) throws(Failure) -> Value {
        do throws(Errno) { return try body() } catch {
            throw Failure(subject, what.isEmpty ? error.description : "\(what): \(error)", remedy)
        }
    }

    /// The line, without the program's name.
    var line: String { (subject.map { "\($0): " } ?? "") + what + (remedy.map { "; \($0)" } ?? "") }
}
