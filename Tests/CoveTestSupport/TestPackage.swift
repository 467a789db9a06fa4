import Foundation

/// What `mount-scripts/test` installs for the tests alone.
public enum TestPackage {
    /// A package's folder.
    public static func folder(_ name: String) throws -> String {
        let home = ProcessInfo.processInfo.environment["HOME"] ?? ""
        let path = "\(home)/.cache/cove-tests/\(name)"
        guard FileManager.default.fileExists(atPath: path) else {
            throw CommandFailure("\(path) is missing: mount-scripts/test installs it")
        }
        return path
    }
}
