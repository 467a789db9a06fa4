import CoveKit
import Foundation

/// An app with a container in an account: it edits a document of its own and one that its user picks from anywhere.
///
///     DocumentPicker MOUNT
///
/// Ctrl-Z saves and closes both, and keeps a bookmark of the picked one; `fg` comes back to it, wherever it is by then. So does
/// the next start.
@main struct Program {
    static func main() async {
        guard CommandLine.arguments.count == 2 else {
            say("usage: DocumentPicker MOUNT")
            exit(2)
        }
        // The bookmark is made before the program stops.
        signal(SIGTSTP, SIG_IGN)
        let suspensions = signals(SIGTSTP)
        do {
            let editor = try await Editor.make(in: URL(fileURLWithPath: CommandLine.arguments[1], isDirectory: true))
            try await editor.begin()
            say("pick [PATH], own LINE, picked LINE, show, or quit; Ctrl-Z suspends")
            await run(editor, suspensions)
            try await editor.end()
        } catch {
            say("\(error)")
            exit(1)
        }
    }

    /// What happens: a line was typed, the input has ended, or the terminal asks for a suspension.
    private enum Event: Sendable {
        case line(String)
        case end
        case suspension
    }

    /// Carries out what is typed until the end of the input.
    private static func run(_ editor: Editor, _ suspensions: AsyncStream<Void>) async {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        // While a line is carried out nothing is read: the picker reads the same terminal.
        let isWanted = DispatchSemaphore(value: 1)
        Thread.detachNewThread {
            repeat { isWanted.wait() } while read(into: continuation)
        }
        let listener = Task { for await _ in suspensions { continuation.yield(.suspension) } }
        defer { listener.cancel() }
        for await event in events {
            do {
                switch event {
                case .end: return
                case .line("quit"): return
                case .line(let line):
                    defer { isWanted.signal() }
                    try await carryOut(line, editor)
                case .suspension:
                    await editor.suspend()
                    say("suspended")
                    kill(getpid(), SIGSTOP)
                    try await editor.resume()
                }
            } catch {
                say("failed: \(error)")
            }
        }
    }

    /// Reads a line; false at the end of the input.
    private static func read(into events: AsyncStream<Event>.Continuation) -> Bool {
        guard let line = readLine() else {
            events.yield(.end)
            return false
        }
        events.yield(.line(line))
        return true
    }

    private static func carryOut(_ line: String, _ editor: Editor) async throws {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        switch (words.first, words.dropFirst().first) {
        case ("pick", let path): try await editor.pick(path)
        case ("own", let text?): try await editor.addToOwn(text)
        case ("picked", let text?): try await editor.addToPicked(text)
        case ("show", nil): await editor.show()
        case (nil, _): break
        default: say("pick [PATH], own LINE, picked LINE, show, or quit")
        }
    }

    /// A signal, each time that it comes.
    private static func signals(_ number: Int32) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        // Dispatch's sources may be used on any thread.
        nonisolated(unsafe) let source = DispatchSource.makeSignalSource(signal: number)
        source.setEventHandler { continuation.yield() }
        source.resume()
        continuation.onTermination = { _ in source.cancel() }
        return stream
    }
}
