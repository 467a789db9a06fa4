import CoveCore
import CoveKit
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `PromisedItem`, as programs use it on many items.
    struct KitPromisedTests {
        @Test func `more than a message holds is told of a thousand items with long paths`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                // Seven hundred bytes, most of them two to a letter.
                let folder = (0..<3).map { _ in String(repeating: "ж", count: 120) }.joined(separator: "/")
                try account.shell(
                    """
                    mkdir -p \(folder); cd \(folder)
                    python3 -c 'for number in range(1200): open(f"{number}.txt", "w").write("text")'
                    """
                )
                let urls = (0..<1200).map { URL(fileURLWithPath: account.path("\(folder)/\($0).txt")) }
                let keys: Set<URLResourceKey> = [
                    .fileSizeKey, .typeIdentifierKey, .documentIdentifierKey, .ubiquitousItemDownloadingStatusKey,
                    .ubiquitousItemContainerDisplayNameKey, .ubiquitousItemIsUploadedKey, .creationDateKey,
                ]
                let results = await PromisedItem.resourceValues(ofItemsAt: urls, forKeys: keys)
                #expect(results.count == 1200)
                for result in results {
                    #expect(try result.get()[.ubiquitousItemDownloadingStatusKey] == .string("Current"))
                }
                try account.end()
            }
        }
    }
}
