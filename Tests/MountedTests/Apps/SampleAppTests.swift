import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// The sample app of the library, as a user works with it on a terminal.
    struct SampleAppTests {
        @Test func `the app edits its own and a picked document, and comes back to it after a suspension`()
            async throws
        {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                let screen = try TerminalScreen(account, columns: 120, rows: 40)
                let program = try Command.built("DocumentPicker")
                func own() throws -> String { try account.shell("cat 'Document Picker/Documents/test.txt'") }
                try screen.run("cd /; \(program) $mnt")
                try screen.wait(for: "created: test.txt")
                try screen.run("own mine")
                try screen.wait(for: "saved: test.txt")
                #expect(try own() == "mine\n")
                // Another app's document is nothing to it before it is picked.
                try screen.run("picked none")
                try screen.wait(for: "nothing is picked")
                try screen.run("pick \(account.mount)/a/Documents/report.txt")
                try screen.wait(for: "picked: report.txt")
                try screen.run("picked one")
                try screen.wait(for: "saved: report.txt")
                #expect(try account.shell("cat a/Documents/report.txt") == "original\none\n")
                #expect(try account.cove("refs ls").contains("Document Picker/Documents/report.txt"))
                // What it has not saved when it is suspended it saves then; meanwhile the document goes elsewhere.
                try screen.press("C-z")
                try screen.wait(for: "Stopped")
                #expect(try screen.text().contains("suspended"))
                try account.killDaemon()
                try account.shell("mkdir a/Documents/d; mv a/Documents/report.txt a/Documents/d/moved.txt")
                try account.shell("echo other >> a/Documents/d/moved.txt")
                try screen.run("clear; fg")
                try screen.wait(for: "came back to: ")
                try screen.run("picked two")
                try screen.wait(for: "saved: ")
                #expect(try account.shell("cat a/Documents/d/moved.txt") == "original\none\nother\ntwo\n")
                try screen.run("clear")
                try screen.run("show")
                try screen.wait(for: "original")
                try screen.run("quit")
                // The next start comes back to it too, and not once it was taken back.
                try screen.run("clear; \(program) $mnt")
                try screen.wait(for: "came back to: ")
                try screen.wait(for: "opened: test.txt")
                try screen.press("C-z")
                try screen.wait(for: "Stopped")
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                for grant in grants { try account.cove("grants revoke \(grant.id)") }
                try screen.run("clear; fg")
                try screen.wait(for: "the picked document can't be had: ")
                try screen.run("own last")
                try screen.wait(for: "saved: test.txt")
                #expect(try own() == "mine\nlast\n")
                try screen.run("quit")
                try screen.wait("the shell is back") { $0.last { !$0.isEmpty }?.hasPrefix("bash-") == true }
            }
        }

        @Test func `the app's user picks on the terminal, and leaves without a choice`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.shell("head -c 100 /dev/urandom > a/Documents/picture.png")
                let screen = try TerminalScreen(account, columns: 120, rows: 40)
                try screen.run("cd /; \(try Command.built("DocumentPicker")) $mnt")
                try screen.wait(for: "created: test.txt")
                try screen.run("pick")
                try screen.wait(for: "Choose a document to open")
                try screen.press("Escape")
                try screen.wait(for: "nothing was picked")
                try screen.run("clear")
                try screen.run("pick")
                // Accounts of other tests may be in the menu, too.
                try screen.wait("the container is shown") { lines in
                    lines.contains { $0.hasPrefix("  a/") || $0.hasPrefix("  a (source)") }
                }
                try screen.press("Down", "Enter")
                try screen.wait(for: "report.txt")
                // What it can't edit can't be chosen.
                try screen.press("Enter")
                try screen.wait(for: "can't use items of this type")
                try screen.press("Down", "Enter")
                try screen.wait(for: "picked: report.txt")
                try screen.run("quit")
                try screen.wait("the shell is back") { $0.last { !$0.isEmpty }?.hasPrefix("bash-") == true }
            }
        }
    }
}
