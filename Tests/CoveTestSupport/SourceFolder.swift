import CoveCore
import Foundation

/// The folder that is the cloud, as another device's programs change it.
public struct SourceFolder: Sendable {
    /// The folder's absolute path.
    public let path: String

    /// Names the folder.
    public init(_ path: String) { self.path = path }

    /// All files with their bytes and all directories, without Cove's own names.
    public func snapshot() throws -> [String: [UInt8]?] {
        var result: [String: [UInt8]?] = [:]
        guard let walker = FileManager.default.enumerator(atPath: path) else { return result }
        for case let name as String in walker {
            if name.split(separator: "/").contains(where: { $0.hasPrefix(".cove") }) { continue }
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: "\(path)/\(name)", isDirectory: &isDirectory) else { continue }
            if isDirectory.boolValue {
                result[name] = .some(nil)
            } else {
                // It may go while this looks.
                do { result[name] = try Array(Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)"))) } catch {
                    if FileManager.default.fileExists(atPath: "\(path)/\(name)") { throw error }
                }
            }
        }
        return result
    }

    /// Replaces a file as most programs do: a new one is renamed over it.
    public func save(_ name: String, _ bytes: [UInt8]) throws {
        let hidden = "\(path)/.\(UUID().uuidString).part"
        try write(bytes, to: hidden, O_EXCL)
        guard Foundation.rename(hidden, "\(path)/\(name)") == 0 else { throw Errno.current }
    }

    /// Writes into a file in place.
    public func writeInPlace(_ name: String, _ bytes: [UInt8]) throws {
        try write(bytes, to: "\(path)/\(name)", O_TRUNC)
    }

    /// The descriptor is close-on-exec: in a program that is started meanwhile the file would stay open for writing.
    private func write(_ bytes: [UInt8], to file: String, _ flags: Int32) throws {
        let descriptor = try System.open(file, O_WRONLY | O_CREAT | flags, 0o644)
        defer { System.close(descriptor) }
        try bytes.withUnsafeBytes { try System.writeAll(descriptor, $0) }
    }

    /// Calls rename(2).
    public func rename(_ from: String, _ to: String) throws {
        guard Foundation.rename("\(path)/\(from)", "\(path)/\(to)") == 0 else { throw Errno.current }
    }

    /// Removes as rm -r does.
    public func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: "\(path)/\(name)") }

    /// Removes a directory with all that is in it at one moment: who watches never sees a part of it gone.
    public func removeAtOnce(_ name: String) throws {
        let aside = "\(path).\(UUID().uuidString).removed"
        guard Foundation.rename("\(path)/\(name)", aside) == 0 else { throw Errno.current }
        try FileManager.default.removeItem(atPath: aside)
    }

    /// Makes as mkdir -p does.
    public func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: "\(path)/\(name)", withIntermediateDirectories: true)
    }
}
