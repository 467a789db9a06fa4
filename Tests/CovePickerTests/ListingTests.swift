import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CovePicker

/// Listing folders, and filtering what was listed.
@Suite struct ListingTests {
    private func names(_ items: FilteredEntries) -> [String] { (0..<items.count).compactMap { items[$0]?.shownName } }

    private func listed(_ names: [String]) -> [ListedEntry] { names.map { ListedEntry(.made($0)) }.sorted(by: <) }

    @Test func `folders come first, then names in order, without regard to case and accents`() {
        let items = FilteredEntries(listed(["b.txt", "Émile", "A.txt", "z/", "e2", "é1", "B/", ".hidden"]))
        #expect(names(items) == ["B", "z", "A.txt", "b.txt", "é1", "e2", "Émile"])
    }

    @Test func `a filter is a part of the name, in any case and without accents`() {
        var items = FilteredEntries(listed(["Résumé.txt", "resume.txt", "other", ".resume", "日本語.txt"]))
        items.set(filter: "SUME")
        #expect(names(items) == ["Résumé.txt", "resume.txt"] || names(items) == ["resume.txt", "Résumé.txt"])
        items.set(filter: "SUMÉ.t")
        #expect(items.count == 2)
        items.set(filter: "本")
        #expect(names(items) == ["日本語.txt"])
        items.set(filter: "")
        #expect(items.count == 4)
        // A dot asks for what is hidden.
        items.set(filter: ".")
        #expect(items.count == 4 && names(items).contains(".resume"))
        items.set(filter: ".r")
        #expect(names(items) == [".resume"])
        items.set(filter: "no such thing")
        #expect(items.count == 0 && items[0] == nil && items[-1] == nil)
    }

    @Test func `a longer filter finds what it would find by itself`() {
        let all = listed((0..<2000).map { "file \(String($0, radix: 7)) \($0).txt" })
        var items = FilteredEntries(all)
        for filter in ["1", "12", "12 ", "12", "2", "2.t", "", ".", ".t", "t"] {
            items.set(filter: filter)
            #expect(items.places == FilteredEntries(all, filter: filter).places, "\(filter)")
        }
    }

    @Test func `names with control characters are shown without them`() {
        let item = ListedEntry(.made("a\u{1B}[31m\nb\u{202E}c"))
        #expect(item.shownName == "a\\u{1b}[31m\\u{a}b\\u{202e}c")
    }

    @Test func `a folder is listed on a thread, part by part, and can be given up`() async throws {
        try await blocking {
            let service = try MadeUpService(folders: ["/mnt": (0..<10).map { .made("f\($0)") }])
            service.isSlow.store(true, ordering: .sequentiallyConsistent)
            let count = Count()
            let listing = try FolderListing(Array("/mnt".utf8), of: service) { count.add() }
            try waitUntil("half is there") { listing.progress == .loading(5) }
            #expect(listing.entries.isEmpty)
            listing.cancel()
            try waitUntil("it has ended") { listing.progress == .failed(.interrupted) }
            service.isSlow.store(false, ordering: .sequentiallyConsistent)
            let second = try FolderListing(Array("/mnt".utf8), of: service) { count.add() }
            try waitUntil("all is there") { second.progress == .done }
            #expect(second.entries.count == 10 && count.value >= 4)
            let third = try FolderListing(Array("/no".utf8), of: service) {}
            try waitUntil("it has failed") {
                third.progress == .failed(PickerFailure("/no", "is not there", "choose another one"))
            }
        }
    }
}

/// A count that threads share.
private final class Count: Sendable {
    private let count = Atomic<Int>(0)
    func add() { count.add(1, ordering: .sequentiallyConsistent) }
    var value: Int { count.load(ordering: .sequentiallyConsistent) }
}
