import CoveCore
import CoveTestSupport
import Testing

@testable import CoveEngine

/// Access control lists as bytes that anybody may have made.
@Suite struct AccessListTests {
    private static func bytes(_ version: UInt32, _ entries: [(UInt16, UInt16, UInt32)]) -> [UInt8] {
        func little(_ number: some FixedWidthInteger) -> [UInt8] {
            withUnsafeBytes(of: number.littleEndian) { Array($0) }
        }
        return little(version) + entries.flatMap { little($0.0) + little($0.1) + little($0.2) }
    }

    private static let owner: (UInt16, UInt16, UInt32) = (1, 7, .max)
    private static let user: (UInt16, UInt16, UInt32) = (2, 6, 5)
    private static let group: (UInt16, UInt16, UInt32) = (4, 5, .max)
    private static let mask: (UInt16, UInt16, UInt32) = (16, 6, .max)
    private static let others: (UInt16, UInt16, UInt32) = (32, 4, .max)

    @Test func `a list and a mode say the same`() throws {
        let plain = try #require(try AccessList(attribute: Self.bytes(2, [Self.owner, Self.group, Self.others])))
        #expect(plain.permissions == 0o754 && !plain.isExtended)
        let bytes = Self.bytes(2, [Self.owner, Self.user, Self.group, Self.mask, Self.others])
        var list = try #require(try AccessList(attribute: bytes))
        #expect(list.permissions == 0o764 && list.isExtended && list.attribute == bytes)
        list.permissions = 0o631
        let changed = Self.bytes(2, [(1, 6, .max), Self.user, Self.group, (16, 3, .max), (32, 1, .max)])
        #expect(list.attribute == changed)
    }

    @Test func `bytes that are no list are refused as the kernel refuses them`() throws {
        func error(_ bytes: [UInt8]) -> Errno? {
            do throws(Errno) {
                return try AccessList(attribute: bytes) == nil ? Errno(0) : nil
            } catch { return error }
        }
        #expect(error([]) == Errno(0))
        #expect(error(Self.bytes(2, [])) == Errno(0))
        #expect(error([2, 0, 0]) == .invalidArgument)
        #expect(error(Self.bytes(3, [Self.owner, Self.group, Self.others])) == .notSupported)
        #expect(error(Self.bytes(2, [Self.owner, Self.group, Self.others]) + [0]) == .invalidArgument)
        #expect(error(Self.bytes(2, [Self.group, Self.owner, Self.others])) == .invalidArgument)
        #expect(error(Self.bytes(2, [Self.owner, Self.user, Self.group, Self.others])) == .invalidArgument)
        #expect(error(Self.bytes(2, [(1, 8, .max), Self.group, Self.others])) == .invalidArgument)
        #expect(
            error(Self.bytes(2, [Self.owner, (2, 6, .max), Self.group, Self.mask, Self.others])) == .invalidArgument
        )
        #expect(error([2, 0, 0, 0] + [UInt8](repeating: 1, count: 65532)) == .argumentListTooLong)
    }

    @Test func `random bytes are a list that stays the same, or none`() throws {
        let seed = UInt64.random(in: 1...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let good = Self.bytes(2, [Self.owner, Self.user, Self.group, Self.mask, Self.others])
        var lists = 0
        for _ in 0..<20_000 {
            var bytes = good
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            bytes.removeLast(Int.random(in: 0...1, using: &random) * Int.random(in: 0...bytes.count, using: &random))
            guard let list = try? AccessList(attribute: bytes) else { continue }
            lists += 1
            #expect(try AccessList(attribute: list.attribute) == list, "seed \(seed)")
        }
        #expect(lists > 100)
    }

    @Test func `SELinux's label is kept, and where there is none no program asks for more`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("f", [1])
            let id = try account.tree.resolve("f")
            let (engine, caller) = (account.engine, account.tree.caller)
            let (label, other) = (Array("security.selinux".utf8), Array("security.capability".utf8))
            #expect(throws: Errno.notSupported) { try engine.extendedAttribute(id, label, caller) }
            #expect(throws: Errno.noData) { try engine.extendedAttribute(id, other, caller) }
            try engine.setExtendedAttribute(id, label, [1, 2], flags: 0, caller)
            #expect(try engine.extendedAttribute(id, label, caller) == [1, 2])
            #expect(try engine.extendedAttributeNames(id, caller) == label + [0])
            try engine.removeExtendedAttribute(id, label, caller)
            #expect(throws: Errno.notSupported) { try engine.extendedAttribute(id, label, caller) }
            await account.stop()
        }
    }

    @Test func `a source that names local attributes sets none`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("f", [1])
            let id = try account.tree.resolve("f")
            let (engine, caller) = (account.engine, account.tree.caller)
            let local = ["security.capability", "system.posix_acl_access", "trusted.a"].map { Array($0.utf8) }
            let own = Array("user.a".utf8)
            let all = Dictionary((local + [own]).map { ($0, [1]) }) { first, _ in first } as [[UInt8]: [UInt8]]
            let remote = RemoteItem(
                id: RemoteID([1]),
                name: Array("f".utf8),
                kind: .file,
                size: 1,
                contentVersion: ContentVersion([1]),
                metadataVersion: MetadataVersion([1]),
                metadata: ItemMetadata(extendedAttributes: all)
            )
            try engine.namespace.catalog.write { database throws(Errno) in
                try engine.namespace.storeRemoteAttributes(remote, of: id, database)
            }
            #expect(try engine.extendedAttribute(id, own, caller) == [1])
            for name in local {
                #expect(throws: Errno.noData) { try engine.extendedAttribute(id, name, caller) }
            }
            await account.stop()
        }
    }
}
