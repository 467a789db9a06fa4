import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// The seal of bookmarks: nobody but the account makes or alters one.
@Suite struct BookmarkSealTests {
    private func seal(_ folder: TemporaryDirectory) throws -> BookmarkSeal {
        try BookmarkSeal(keyFile: folder.appending("key"))
    }

    @Test func `no byte of a bookmark can be changed, left out or added`() throws {
        let folder = try TemporaryDirectory("seal")
        let seal = try seal(folder)
        let open = Array("{\"app\":\"com.acme.notes\"}".utf8)
        let hidden = Array("{\"document\":\"0123456789abcdef0123456789abcdef\"}".utf8)
        let sealed = try seal.seal(open: open, hidden: hidden)
        let whole = try #require(seal.parts(of: sealed))
        #expect(whole.open == open && whole.hidden == hidden)
        #expect(BookmarkSeal.openPart(of: sealed) == open)
        for index in sealed.indices {
            for bit in 0..<8 {
                var altered = sealed
                altered[index] ^= 1 << bit
                #expect(seal.parts(of: altered) == nil, "byte \(index), bit \(bit)")
            }
            #expect(seal.parts(of: Array(sealed[..<index])) == nil)
            #expect(seal.parts(of: Array(sealed[index...])) == nil || index == 0)
        }
        for byte in [UInt8(0), 1, 0xFF] { #expect(seal.parts(of: sealed + [byte]) == nil) }
        #expect(try seal.seal(open: open, hidden: hidden) != sealed)
    }

    @Test func `bytes that are no bookmark are none, whatever they say of their length`() throws {
        let folder = try TemporaryDirectory("seal")
        let seal = try seal(folder)
        var generator = SeededGenerator(seed: 7)
        for length in [UInt32(0), 1, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000] {
            var bytes = Array("CVBK".utf8) + [1]
            withUnsafeBytes(of: length.littleEndian) { bytes.append(contentsOf: $0) }
            for count in [0, 1, 39, 40, 41, 200] {
                let made = bytes + (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
                #expect(seal.parts(of: made) == nil)
            }
        }
        #expect(seal.parts(of: []) == nil && seal.parts(of: [UInt8](repeating: 0, count: 1 << 20)) == nil)
        #expect(throws: Errno.argumentListTooLong) {
            try seal.seal(open: [UInt8](repeating: 0, count: BookmarkSeal.greatestSize), hidden: [])
        }
    }

    @Test func `the key is made once, is nobody else's to read, and another one opens nothing`() throws {
        let folder = try TemporaryDirectory("seal")
        let sealed = try seal(folder).seal(open: [1], hidden: [2])
        #expect(try seal(folder).parts(of: sealed)?.hidden == [2])
        let status = try System.lstat(folder.appending("key"))
        #expect(status.st_mode & 0o777 == 0o600 && status.st_size == 32)
        let other = try TemporaryDirectory("seal")
        #expect(try seal(other).parts(of: sealed) == nil)
        try Data([1, 2, 3]).write(to: URL(fileURLWithPath: folder.appending("key")))
        #expect(throws: Errno.inputOutput) { try seal(folder) }
    }
}
