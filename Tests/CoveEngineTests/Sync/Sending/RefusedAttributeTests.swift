import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Attributes of files for which the source's disk has no room.
@Suite(.timeLimit(.minutes(2))) struct RefusedAttributeTests {
    @Test func `an attribute without room at the source is told of until it fits, and keeps no bytes`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("attributes")
            // ext4 has a block for all attributes of a file.
            let disk = try LoopDisk(in: place.path, megabytes: 16)
            let source = "\(disk.path)/source"
            try FileManager.default.createDirectory(atPath: source, withIntermediateDirectories: true)
            try await SourceAccount.with("dir://\(source)") { account in
                let (engine, tree) = (account.engine, account.tree)
                func set(_ path: String, _ name: String, _ size: Int) throws {
                    let value = [UInt8](repeating: 7, count: size)
                    let id = try tree.resolve(path)
                    try engine.setExtendedAttribute(id, Array(name.utf8), value, flags: 0, tree.caller)
                }
                func bytes(_ path: String) -> [UInt8]? {
                    FileManager.default.contents(atPath: "\(source)/\(path)").map { [UInt8]($0) }
                }
                func size(_ path: String, _ name: String) -> Int {
                    (try? System.attribute(Array("\(source)/\(path)".utf8), Array(name.utf8)))?.count ?? -1
                }
                await engine.pause()
                try tree.write("new", Array("new".utf8))
                try set("new", "user.large", 8000)
                try set("new", "user.small", 10)
                try tree.makeDirectory("folder")
                try set("folder", "user.large", 8000)
                await engine.resume()
                var status = await account.sync()
                try waitUntil("both are told of") {
                    status = engine.accountStatus()
                    return status.errors.map(\.path).sorted() == ["folder", "new"]
                }
                let told = status.errors.map(\.message)
                #expect(told.allSatisfy { $0.contains("does not take its attribute user.large") }, "\(told)")
                #expect(bytes("new") == Array("new".utf8))
                #expect(size("new", "user.small") == 10 && size("new", "user.large") == -1)
                // Other bytes go as ever, and it is told of as before.
                try tree.write("new", Array("newer".utf8))
                _ = await account.sync()
                try waitUntil("both are told of") {
                    bytes("new") == Array("newer".utf8)
                        && engine.accountStatus().errors.map(\.path).sorted() == ["folder", "new"]
                }
                // So does a date.
                var change = AttributeChange()
                change.modificationTime = .at(Timestamp(seconds: 1_000_000_000, nanoseconds: 0))
                _ = try engine.setAttributes(of: tree.resolve("new"), change, hasHandle: false, tree.caller)
                _ = await account.sync()
                try waitUntil("the date is there") {
                    try System.lstat("\(source)/new").st_mtim.tv_sec == 1_000_000_000
                        && engine.accountStatus().errors.map(\.path).sorted() == ["folder", "new"]
                }
                // What comes back of all that takes nothing away here.
                for path in ["new", "folder"] {
                    let value = try engine.extendedAttribute(tree.resolve(path), Array("user.large".utf8))
                    #expect(value.count == 8000)
                }
                for path in ["new", "folder"] { try set(path, "user.large", 100) }
                status = await account.sync()
                #expect(status.state == "idle" && status.errors.isEmpty, "\(status)")
                #expect(size("new", "user.large") == 100 && size("folder", "user.large") == 100)
            }
            try disk.unmount()
        }
    }
}
