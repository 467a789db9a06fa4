internal import Glibc
internal import Synchronization

/// The environment of this process, without what is secret in it once that was taken out.
///
/// Others can read what a process was started with, and its children inherit it.
public enum ProcessEnvironment {
    /// The variables that have passwords, or lead to them.
    public static let secretNames = [
        "COVE_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    ]

    private static let secrets = Mutex<[String: String]>([:])

    /// A variable's value, also of one that was taken out.
    public static func value(_ name: String) -> String? {
        secrets.withLock { $0[name] } ?? getenv(name).map { String(cString: $0) }
    }

    /// Takes the secrets out of what the process was started with, and gives them.
    ///
    /// To be called before there is a second thread.
    @discardableResult
    public static func takeSecrets() -> [String: String] {
        var taken: [String: String] = [:]
        for name in secretNames {
            while let value = getenv(name) {
                if taken[name] == nil { taken[name] = String(cString: value) }
                // As /proc/PID/environ shows it.
                memset(value, 0, strlen(value))
                unsetenv(name)
            }
        }
        return taken
    }

    /// Keeps secrets for `value`.
    public static func keep(_ values: [String: String]) { secrets.withLock { $0.merge(values) { $1 } } }
}
