import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CovePicker

/// What keys do in the picker on a terminal.
@Suite struct ModelTests {
    private static let folders: [String: [PickerEntry]] = [
        "/mnt": [
            .made("docs/"), .made("alpha.txt"), .made("beta.txt"), .made("no.zip", isSelectable: false),
            .made(".hidden"),
        ],
        "/mnt/docs": [.made("inner/"), .made("in docs.txt")],
        "/mnt/docs/inner": [],
        "/other": [.made("x.txt")],
    ]

    /// A model whose listings are done as soon as they are asked for.
    private final class Driver {
        let service: MadeUpService
        var model: PickerModel

        init(_ mode: PickerMode = .import, roots: [String] = ["/mnt"], file: String? = nil) throws {
            service = try MadeUpService(mode: mode, roots: roots, file: file, folders: ModelTests.folders)
            model = PickerModel(service.request, roots: try service.roots())
            if let folder = model.folder { try list(folder) }
        }

        func list(_ folder: [UInt8]) throws {
            let listing = try FolderListing(folder, of: service) {}
            try waitUntil("it is listed") { listing.progress == .done }
            model.take(listing)
        }

        /// Presses keys; the action of the last one.
        @discardableResult
        func press(_ keys: Key...) throws -> PickerModel.Action {
            var action = PickerModel.Action.none
            for key in keys {
                action = model.press(key)
                if case .list(let folder) = action { try list(folder) }
            }
            return action
        }

        var current: String? { model.items[model.cursor]?.shownName }
        var path: [String] { model.crumbs.map(\.name) }
    }

    @Test func `arrows move, Enter goes in and Left comes back to where it was`() async throws {
        try await blocking {
            let driver = try Driver()
            #expect(driver.current == "docs" && driver.model.items.count == 4)
            try driver.press(.up)
            #expect(driver.current == "docs")
            try driver.press(.down, .down)
            #expect(driver.current == "beta.txt")
            try driver.press(.end)
            #expect(driver.current == "no.zip")
            try driver.press(.home, .enter)
            #expect(driver.path == ["Place /mnt", "docs"] && driver.current == "inner")
            try driver.press(.right)
            #expect(driver.path.count == 3 && driver.current == nil)
            try driver.press(.enter, .down, .pageDown)
            try driver.press(.left)
            #expect(driver.path.count == 2 && driver.current == "inner")
            try driver.press(.backspace)
            #expect(driver.path.count == 1 && driver.current == "docs")
            // Nothing is above the only place.
            try driver.press(.left, .backspace)
            #expect(driver.path.count == 1)
        }
    }

    @Test func `Enter chooses what is of the type, and nothing else`() async throws {
        try await blocking {
            let driver = try Driver()
            #expect(try driver.press(.end, .enter) == .none)
            #expect(driver.model.message == "org.example.App can't use items of this type")
            try driver.press(.home, .down)
            #expect(driver.model.message == nil)
            #expect(try driver.press(.enter) == .choose(PickerSelection(path: Array("/mnt/alpha.txt".utf8))))
            // Meanwhile only giving up is possible.
            #expect(driver.model.isBusy)
            #expect(try driver.press(.down, .enter, .text("x")) == .none)
            #expect(try driver.press(.escape) == .giveUp)
            driver.model.fail(.interrupted)
            #expect(driver.model.message == "Given up; nothing has changed" && !driver.model.isBusy)
            driver.model.fail(PickerFailure("a\u{1B}b", "is gone", "choose another one"))
            #expect(driver.model.message == "a\\u{1b}b: is gone; choose another one")
        }
    }

    @Test func `what is typed filters, Escape clears the filter and then leaves`() async throws {
        try await blocking {
            let driver = try Driver()
            try driver.press(.down, .down, .text("T"), .text("x"))
            #expect(driver.model.items.count == 2 && driver.current == "beta.txt")
            try driver.press(.backspace, .backspace, .text("l"), .text("p"))
            #expect(driver.current == "alpha.txt" && driver.model.items.count == 1)
            #expect(try driver.press(.escape) == .none)
            #expect(driver.model.filter.isEmpty && driver.current == "alpha.txt")
            #expect(driver.service.listings.load(ordering: .relaxed) == 1, "a filter reads nothing again")
            #expect(try driver.press(.text("q"), .control("u"), .escape) == .cancel)
        }
    }

    @Test func `a folder and a name are chosen for an export`() async throws {
        try await blocking {
            let driver = try Driver(.export, file: "/tmp/report.pdf")
            #expect(try driver.press(.down, .enter) == .none)
            #expect(driver.model.message == "A folder is chosen here: Tab goes to the name")
            try driver.press(.home, .enter, .tab)
            #expect(driver.model.focus == .name)
            #expect(try driver.press(.enter) == .choose(PickerSelection(path: Array("/mnt/docs".utf8))))
            driver.model.fail(PickerFailure(nil, "no"))
            try driver.press(.control("u"), .text("n"), .text("é"), .text("x"), .backspace)
            let selection = PickerSelection(path: Array("/mnt/docs".utf8), name: Array("né".utf8))
            #expect(try driver.press(.enter) == .choose(selection))
            driver.model.fail(PickerFailure(nil, "no"))
            for bad in ["", "..", "a/b"] {
                try driver.press(.control("u"))
                for letter in bad { try driver.press(.text(String(letter))) }
                #expect(try driver.press(.enter) == .none)
                #expect(driver.model.message?.hasPrefix("That is ") == true, "\(bad)")
            }
            #expect(try driver.press(.escape) == .none)
            #expect(try driver.press(.escape) == .cancel)
        }
    }

    @Test func `several places are a list, which is above each of them`() async throws {
        try await blocking {
            let driver = try Driver(.export, roots: ["/mnt", "/other"], file: "/f")
            #expect(driver.path.isEmpty && driver.model.items.count == 2)
            #expect(try driver.press(.tab) == .none)
            #expect(driver.model.message == "Go into a folder first")
            try driver.press(.down, .enter)
            #expect(driver.path == ["Place /other"] && driver.current == "x.txt")
            #expect(try driver.press(.left) == .showRoots)
            #expect(driver.path.isEmpty && driver.current == "Place /other")
        }
    }

    @Test func `100,000 items are filtered at once and listed once`() async throws {
        try await blocking {
            let names = (0..<100_000).map { PickerEntry.made("file number \($0).txt") }
            let service = try MadeUpService(folders: ["/mnt": names])
            var model = PickerModel(service.request, roots: try service.roots())
            model.set(height: 20)
            let listing = try FolderListing(Array("/mnt".utf8), of: service) {}
            try waitUntil("it is listed", deadline: 120) { listing.progress == .done }
            model.take(listing)
            let start = ContinuousClock.now
            for letter in "number 9999" { _ = model.press(.text(String(letter))) }
            for _ in 0..<1000 { _ = model.press(.down) }
            let taken = ContinuousClock.now - start
            #expect(model.items.count == 11 && model.cursor == 10)
            #expect(taken < .seconds(20), "\(taken)")
            #expect(service.listings.load(ordering: .relaxed) == 1)
        }
    }
}
