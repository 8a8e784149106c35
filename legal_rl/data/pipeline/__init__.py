"""The paper's data construction (section 4.2, appendix G) as stages on streams of JSON Lines records."""
