import CoveCore
import CoveKit
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What programs ask the file manager about the cloud; the numbers are those of the acceptance checklist.
    struct KitUbiquityTests {
        @Test func `66. the identity's token is the account's, nil without one, and its changes are told`() async throws
        {
            try await blocking {
                // Of all accounts of this user the one with that name is meant.
                let cloud = try TemporaryDirectory("identity")
                let account = try MountedAccount(address: "dir://\(cloud.path)")
                try account.start()
                let name = try account.shell("getfattr --only-values -n user.cove.account .")
                func driver(_ steps: String...) throws -> Command {
                    try Command(Command.built("CoveKitDriver"), steps, environment: ["COVE_ACCOUNT": name])
                }
                let lines = try driver("identity", "identity").finish()
                #expect(lines.count == 2 && lines[0] == lines[1] && lines[0].hasPrefix("identity [\""), "\(lines)")
                let own = FileManager.default.ubiquityIdentityToken(forItemAt: URL(fileURLWithPath: account.mount))
                #expect(own != nil)
                #expect(
                    own
                        == FileManager.default.ubiquityIdentityToken(
                            forItemAt: URL(fileURLWithPath: account.path("x/y"))
                        )
                )
                #expect(FileManager.default.ubiquityIdentityToken(forItemAt: URL(fileURLWithPath: "/tmp")) == nil)
                try await mounted { other in
                    let url = URL(fileURLWithPath: other.mount)
                    let token = FileManager.default.ubiquityIdentityToken(forItemAt: url)
                    #expect(token != nil && token != own)
                }
                // Unmounted, and mounted again.
                let follower = try driver("identities 2", "identity")
                try follower.says("following")
                try account.killDaemon()
                try account.end()
                try follower.says("> identity nil")
                #expect(try driver("identity").finish() == ["identity nil"])
                try account.start()
                let said = try follower.finish()
                #expect(said == ["following", "> identity nil", "> \(lines[0])", "all were posted", lines[0]])
                try account.end()
            }
        }

        @Test func `67. presenters of an item that leaves its account are told, in other processes too`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell("printf text > f; mkdir d; printf inside > d/inner; $COVE sync --wait")
                let (out, folder) = (account.scratch.appending("out"), account.scratch.appending("folder"))
                let gates = try ["one", "two"].map { try account.gate($0) }
                let presenter = try account.driver("present \(account.path("f"))", "gate \(gates[0])", "read \(out)")
                let inner = try account.driver("present \(account.path("d/inner"))", "gate \(gates[1])", "presented")
                for driver in [presenter, inner] { try driver.says("presenting") }
                #expect(try account.driver("leave \(account.path("f")) \(out)").finish() == ["is ubiquitous: false"])
                try presenter.says("> moved \(out)")
                #expect(try account.shell("cat $tmp/out; ls") == "text" + "d\n")
                #expect(try account.driver("leave \(account.path("d")) \(folder)").finish() == ["is ubiquitous: false"])
                try inner.says("> moved \(folder)/inner")
                try gates[0].open(for: presenter)
                try gates[1].open(for: inner)
                #expect(try presenter.finish().last == "read: text")
                #expect(try inner.finish().last == "at \(folder)/inner")
                try account.expectSame()
            }
        }

        /// A presenter in this process.
        private final class Reader: FilePresenter {
            let places: AsyncStream<URL>
            private let continuation: AsyncStream<URL>.Continuation
            private let url: URL

            init(_ url: URL) {
                self.url = url
                (places, continuation) = AsyncStream.makeStream(of: URL.self)
            }

            var presentedItemURL: URL? { url }
            func presentedItemDidMove(to newURL: URL) async { continuation.yield(newURL) }
        }

        @Test func `67. presenters of an item that comes into an account are told, and hear of it there`() async throws
        {
            let account = try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                try account.start()
                try account.shell("echo text > $tmp/local")
                return account
            }
            let local = URL(fileURLWithPath: account.scratch.appending("local"))
            let inside = URL(fileURLWithPath: account.path("letter"))
            let reader = Reader(local)
            try await FileCoordinator.addFilePresenter(reader)
            #expect(!FileManager.default.isUbiquitousItem(at: local))
            try await FileManager.default.setUbiquitous(true, itemAt: local, destinationURL: inside)
            #expect(FileManager.default.isUbiquitousItem(at: inside))
            var places = reader.places.makeAsyncIterator()
            #expect(await places.next()?.path == inside.path)
            _ = try await blocking { try account.shell("cat letter; ! [ -e $tmp/local ]; mv letter elsewhere") }
            #expect(await places.next()?.path == account.path("elsewhere"))
            await FileCoordinator.removeFilePresenter(reader)
            try await blocking { try account.end() }
        }

        @Test func `67. what is there, what is not and what is on the wrong side has the errors of Cocoa`() async throws
        {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                try account.start()
                try account.shell("echo a > here; echo b > $tmp/local; mkdir $tmp/d; echo c > $tmp/d/in")
                let url = { (name: String) in URL(fileURLWithPath: account.path(name)) }
                let outside = { (name: String) in URL(fileURLWithPath: account.scratch.appending(name)) }
                func code(_ flag: Bool, _ from: URL, _ to: URL) -> (CoveError.Code, CocoaError.Code)? {
                    do throws(CoveError) {
                        try FileManager.default.setUbiquitous(flag, itemAt: from, destinationURL: to)
                        return nil
                    } catch {
                        return (error.code, error.cocoaError.code)
                    }
                }
                let exists = try #require(code(true, outside("local"), url("here")))
                #expect(exists.0 == .fileExists && exists.1.rawValue == 516)
                let missing = try #require(code(true, outside("none"), url("new")))
                #expect(missing.0 == .noSuchFile && missing.1.rawValue == 260)
                #expect(code(true, url("here"), url("new"))?.0 == .invalidArgument)
                #expect(code(true, outside("local"), outside("new"))?.0 == .invalidArgument)
                #expect(code(false, url("here"), url("new"))?.0 == .invalidArgument)
                #expect(code(false, outside("local"), outside("new"))?.0 == .invalidArgument)
                #expect(code(true, outside("d"), url("d")) == nil)
                #expect(
                    try account.shell("cat here $tmp/local d/in; ls; ls $tmp | grep -c ^d || true")
                        == "a\nb\nc\nd\nhere\n0\n"
                )
                try account.settle()
                // What is here is dropped, and fetched again.
                try await FileManager.default.evictUbiquitousItem(at: url("d"))
                #expect(try account.info("d/in").state == "dataless")
                try await FileManager.default.startDownloadingUbiquitousItem(at: url("d"))
                try waitUntil("it is fetched") { try account.info("d/in").state == "materialized" }
                await #expect(throws: CoveError.self) {
                    try await FileManager.default.startDownloadingUbiquitousItem(at: outside("local"))
                }
                try account.end()
            }
        }

        @Test func `a program keeps an item on its device, and sends it again`() async throws {
            try await mounted(options: "settle=50ms", prepare: { try $0.write("far", "far") }) { account in
                func url(_ path: String) -> URL { URL(fileURLWithPath: account.path(path)) }
                func isExcluded(_ path: String) async throws -> Bool {
                    let keys: Set<URLResourceKey> = [.ubiquitousItemIsExcludedFromSyncKey]
                    let values = try await PromisedItem.resourceValues(ofItemAt: url(path), forKeys: keys)
                    return values[.ubiquitousItemIsExcludedFromSyncKey] == .bool(true)
                }
                try account.shell("mkdir build; echo made > build/o; ls > $tmp/out; $COVE sync --wait")
                for path in ["far", "build"] {
                    #expect(try await !isExcluded(path))
                    try await FileManager.default.setExcludedFromSync(true, itemAt: url(path))
                    #expect(try await isExcluded(path) && !FileManager.default.isUbiquitousItem(at: url(path)))
                }
                try account.settle()
                #expect(try account.source.names() == [] && account.shell("cat far build/o") == "farmade\n")
                try await FileManager.default.setExcludedFromSync(false, itemAt: url("build"))
                try account.settle()
                #expect(try account.source.names() == ["build"])
                #expect(FileManager.default.isUbiquitousItem(at: url("build/o")))
                await #expect(throws: CoveError.self) {
                    try await FileManager.default.setExcludedFromSync(true, itemAt: URL(fileURLWithPath: "/tmp"))
                }
                await #expect(throws: CoveError.self) {
                    try await FileManager.default.setExcludedFromSync(true, itemAt: url("none"))
                }
            }
        }

        @Test func `68. a program has a link made`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                _ = cloud.sharesFiles()
                let account = try MountedAccount(options: "settle=50ms", address: cloud.source)
                try account.start()
                try account.shell("echo text > f; mkdir d.rtfd")
                try account.settle()
                let lines = try account.driver("link \(account.path("f"))", "link \(account.path("d.rtfd"))").finish()
                #expect(lines.count == 2 && lines[0].hasPrefix("link true http://"), "\(lines)")
                #expect(lines.last?.hasPrefix("failed: \(CoveError.Code.notSupported.rawValue) ") == true)
                let link = lines[0].dropFirst("link true ".count)
                #expect(try account.shell("echo more >> f; $COVE sync --wait; curl -sSf '\(link)'") == "text\n")
                try account.end()
            }
        }
    }
}
