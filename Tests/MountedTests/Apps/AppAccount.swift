import CoveCore
import CoveTestSupport
import Foundation
import Testing

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

/// A program of an app that goes on running, and holds what it has opened.
final class AppHandles {
    private static let program = """
        import os, sys
        held = {}
        def read(descriptor): return os.pread(descriptor, 100, 0).decode().strip()
        for line in sys.stdin:
            verb, number, path = line.rstrip('\\n').split(' ', 2)
            try:
                if verb == 'open':
                    held[number] = os.open(os.environ['COVE_SHARED'] + '/' + path, os.O_RDONLY)
                    print(read(held[number]), flush=True)
                elif verb == 'end':
                    break
                elif verb == 'read':
                    print(read(held[number]), flush=True)
                else:
                    again = os.open('/proc/self/fd/%d' % held[number], os.O_RDONLY)
                    print(read(again), flush=True)
                    os.close(again)
            except OSError as error:
                print('refused: ' + error.strerror, flush=True)
        """

    private let account: MountedAccount
    private let commands: String
    private let process: Command
    private var asked = 0

    init(_ account: MountedAccount, _ app: String) throws {
        self.account = account
        commands = String(try account.shell("mkfifo $tmp/\(app).in; echo $tmp/\(app).in").dropLast())
        process = try account.start(
            "$COVE run --app com.\(app).app -- python3 -c \"$(cat <<'END'\n\(Self.program)\nEND\n)\" <> \(commands)"
        )
    }

    /// Opens a document at a place of the account; its text, or `refused` and why.
    func open(_ number: Int, _ path: String) throws -> String { try ask("open \(number) \(path)") }

    /// The text by what was opened.
    func read(_ number: Int) throws -> String { try ask("read \(number) -") }

    /// The text of the same by another opening, without a path of the account.
    func readAnew(_ number: Int) throws -> String { try ask("again \(number) -") }

    private func ask(_ command: String) throws -> String {
        try account.shell("echo '\(command)' > \(commands)")
        asked += 1
        func answers() -> [Substring] { process.output.split(separator: "\n") }
        try waitUntil("the program answers", deadline: 60) { answers().count >= asked }
        return String(answers()[asked - 1])
    }

    func end() throws {
        try account.shell("echo 'end 0 -' > \(commands)")
        #expect(try process.wait(deadline: 30).status == 0)
    }
}
