import Foundation

/// A folder that goes with its last reference.
public final class TemporaryDirectory: Sendable {
    /// The folder's absolute path.
    public let path: String

    /// Makes a folder below the machine's temporary one, or another.
    public init(_ name: String = "cove-test", in parent: String? = nil) throws {
        var template = Array("\(parent ?? NSTemporaryDirectory())/\(name).XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        path = URL(fileURLWithPath: String(cString: made)).resolvingSymlinksInPath().path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of something inside.
    public func appending(_ name: String) -> String { "\(path)/\(name)" }
}
