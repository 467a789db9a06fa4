import CoveCore
import CoveTestSupport
import Foundation

extension SourceFolder {
    /// A file's text.
    func text(_ name: String) throws -> String { try String(contentsOfFile: "\(path)/\(name)", encoding: .utf8) }

    /// The names at the top, without those that begin with a dot.
    func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).filter { !$0.hasPrefix(".") }.sorted()
    }

    /// Makes a file, and the folders above it.
    func write(_ name: String, _ text: String) throws {
        let url = URL(fileURLWithPath: "\(path)/\(name)")
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }
}

extension MountedAccount {
    /// Makes an app with a container that all see, and a document in it.
    func addApp(_ name: String, document: String, _ text: String) throws {
        try cove("container create com.\(name).box --app com.\(name).app --name \(name) --public")
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(mount)/\(name)/Documents/\(document)"))
    }

    /// Runs a bash script as a program of an app; what it printed, with its errors.
    func asApp(_ name: String, _ script: String) throws -> String {
        let quoted = script.replacingOccurrences(of: "'", with: "'\\''")
        let result = try start("$COVE run --app com.\(name).app -- bash -c '\(quoted)' 2>&1 || true").wait(deadline: 60)
        return result.output + result.error
    }

    /// Gives an app a document, as a person does who picks it; where the app has it.
    @discardableResult
    func pick(_ path: String, for name: String) throws -> String {
        let told = String(try cove("pick --app com.\(name).app --mode open --choose '\(path)'").dropLast())
        return told.hasPrefix(mount + "/") ? String(told.dropFirst(mount.count + 1)) : told
    }
}
