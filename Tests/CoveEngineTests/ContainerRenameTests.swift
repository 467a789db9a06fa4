import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// A container's folder that is renamed: at each moment it is the container's, and nobody else's.
@Suite(.timeLimit(.minutes(5))) struct ContainerRenameTests {
    @Test(arguments: [false, true])
    func `a hidden container stays its app's while its new name is on its way`(dies: Bool) async throws {
        try await blocking {
            let account = try EngineAccount()
            let box = try #require(AppIdentifier("com.one.box"))
            let own = try #require(AppIdentifier("com.one.app"))
            let other = try #require(AppIdentifier("com.two.app"))
            let name = FileName(unchecked: Array("Letters".utf8))
            _ = try await account.engine.createContainer(box, for: own, name: "a", isPublic: false)
            try account.tree.write("a/Documents/secret", Array("text".utf8))
            try await account.settle()
            let folder = try account.tree.resolve("a")
            func expectPrivate(_ moment: String) throws {
                let access = account.engine.access
                try access.markFolders()
                let entry = try #require(
                    try account.engine.catalog.read { database throws(Errno) in
                        try database.entry(ofDirectory: folder)
                    }
                )
                func isOpen(_ app: AppIdentifier) throws -> Bool {
                    try account.engine.catalog.read { database throws(Errno) in
                        try access.isOpen(top: entry, to: app, database)
                    }
                }
                #expect(access.folders[folder] == .container(box, isPublic: false), "\(moment)")
                #expect(try !isOpen(other) && isOpen(own), "\(moment)")
                // As it is before anything was marked.
                access.folders.update { $0 = [:] }
                #expect(try !isOpen(other) && isOpen(own), "\(moment), unmarked")
                let found = try account.engine.catalog.read { database throws(Errno) in
                    try access.entry(ofContainer: box, database)
                }
                #expect(found?.item == folder, "\(moment)")
                try access.markFolders()
            }
            try expectPrivate("before")
            await account.engine.pause()
            try account.tree.rename("a", "Letters")
            try expectPrivate("renamed here")
            // The provider has carried it out, and the answer has not been heeded yet.
            try account.engine.access.names.rename(there: box.folderName, to: name)
            try expectPrivate("renamed there")
            await account.engine.access.read()
            try expectPrivate("read meanwhile")
            if dies { try await account.die() }
            try expectPrivate("read meanwhile, and after a death")
            await account.engine.resume()
            try await account.settle()
            try expectPrivate("acknowledged")
            #expect(account.engine.access.registry.containers[box]?.name == "Letters")
            let there = try FileManager.default.contentsOfDirectory(atPath: account.source).filter {
                !$0.hasPrefix(".")
            }
            #expect(there.sorted() == ["_cove-drive", "com.one.box"])
            #expect(try account.tree.list("").isEmpty)
            #expect(try account.tree.read("Letters/Documents/secret") == Array("text".utf8))
        }
    }
}
